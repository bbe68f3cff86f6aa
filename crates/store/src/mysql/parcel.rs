//! Statements that travel in one piece.
//!
//! Over TLS a long statement goes in pieces of 16 KiB, each a write of its own, and the client
//! library leaves Nagle's rule on: the second piece waits until the server has acknowledged the
//! first, which takes a server that waits for the rest 40 ms.

/// How many bytes of long texts one statement carries; the rest of a piece is for its words.
const ROOM: usize = 12 * 1024;

/// Parts rows into as few statements as that takes, in their order. One that is longer than all of
/// that goes alone.
pub(super) fn part<T>(rows: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut taken): (Vec<Vec<T>>, usize) = (Vec::new(), 0);
    for row in rows {
        let size = size(&row);
        match parts.last_mut().filter(|_| taken + size <= ROOM) {
            Some(part) => part.push(row),
            None => {
                parts.push(vec![row]);
                taken = 0;
            }
        }
        taken += size;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_large_as_fits_and_keep_the_order() {
        let split = |sizes: &[usize]| part(sizes.to_vec(), |size| *size);
        assert_eq!(split(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(split(&[ROOM - 1, 1]), [vec![ROOM - 1, 1]]);
        assert_eq!(split(&[ROOM - 1, 1, 1, 2]), [vec![ROOM - 1, 1], vec![1, 2]]);
        assert_eq!(split(&[1, ROOM + 1, 1]), [vec![1], vec![ROOM + 1], vec![1]]);
    }
}
