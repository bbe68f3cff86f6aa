//! Ports for servers that listen later, or again: nobody else takes them meanwhile.
//!
//! The kernel gives none of them to a connection, for they lie outside the range from which it
//! chooses. Among us a name marks a port as taken: a socket without a file, which ends with its
//! process however that ends. Tests use this file too.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result, bail};

/// The lowest port to choose. Those below belong to well-known servers.
const LOWEST: u16 = 10_000;

/// From which ports the kernel chooses.
const KERNELS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports in a row, for as long as this lives.
#[derive(Debug)]
pub struct Ports<const N: usize> {
    /// Which they are, in order.
    pub numbers: [u16; N],
    _marks: [UnixDatagram; N],
}

impl<const N: usize> Ports<N> {
    /// Finds ports that are free, and marks them.
    pub fn reserve() -> Result<Ports<N>> {
        let rows = rows(&fs::read_to_string(KERNELS).context(KERNELS)?, N)?;
        // Not those that were let go last: somebody may still knock there.
        let first = RandomState::new().hash_one(()) as usize % rows.len();
        let mut why = None;
        for row in rows[first..].iter().chain(&rows[..first]) {
            let numbers = std::array::from_fn(|n| row + n as u16);
            let marks: io::Result<Vec<_>> = numbers.into_iter().map(mark).collect();
            match marks.map(<[UnixDatagram; N]>::try_from) {
                Ok(Ok(marks)) => return Ok(Ports { numbers, _marks: marks }),
                Ok(Err(_)) => bail!("each port has one mark"),
                Err(error) => why = Some(error),
            }
        }
        bail!("no ports are free: {why:?}")
    }
}

/// Returns where rows of so many ports begin that the kernel gives to nobody.
fn rows(kernels: &str, length: usize) -> Result<Vec<u16>> {
    let mut ends = kernels.split_whitespace().map(str::parse::<u16>);
    let (Some(Ok(low)), Some(Ok(high))) = (ends.next(), ends.next()) else {
        bail!("{KERNELS} holds no range: {kernels}");
    };
    let length = u16::try_from(length)?;
    let apart = |first: &u16| first + (length - 1) < low || *first > high;
    let rows: Vec<u16> = (LOWEST..=u16::MAX - length).filter(apart).collect();
    if rows.is_empty() {
        bail!("connections may use every port from {low} to {high}: leave some out in {KERNELS}");
    }
    Ok(rows)
}

/// Takes one port, unless somebody has it.
fn mark(port: u16) -> io::Result<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("postbox-port-{port}"))?;
    let mark = UnixDatagram::bind_addr(&name)?;
    // This fails as well when somebody has it at one address only.
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_stand_in_a_row_and_belong_to_one() {
        let held: Vec<Ports<6>> = (0..20).map(|_| Ports::reserve().unwrap()).collect();
        let all: HashSet<u16> = held.iter().flat_map(|ports| ports.numbers).collect();
        assert_eq!(all.len(), 20 * 6, "one was given twice");
        for ports in &held {
            let first = ports.numbers[0];
            assert_eq!(ports.numbers, std::array::from_fn(|n| first + n as u16));
        }
        let [port, ..] = held[0].numbers;
        assert_eq!(mark(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_is_free_again_when_its_holder_is_gone() {
        let free_again = || {
            let ports = Ports::<1>::reserve().unwrap();
            let [port] = ports.numbers;
            drop(ports);
            mark(port).is_ok()
        };
        // Another test may have one of them by now, but not each.
        assert!((0..10).any(|_| free_again()));
    }

    #[test]
    fn a_port_at_which_anybody_listens_is_taken() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = mark(other.local_addr().unwrap().port());
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn no_connection_gets_one() {
        let rows = |range, length| rows(range, length).unwrap();
        let below = rows("32768\t60999\n", 6);
        assert_eq!(
            (below[0], below.contains(&32762), below.contains(&32763)),
            (10_000, true, false)
        );
        assert_eq!((below.contains(&60999), below.contains(&61000)), (false, true));
        assert_eq!(rows("1024 65000", 2)[0], 65_001);
        assert!(super::rows("1024 65535", 1).is_err());
    }
}
