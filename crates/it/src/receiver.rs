//! A destination that writes down everything it gets, and answers as the test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// One event that came in.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Which relay brought it: the path it posts to.
    pub by: String,
    /// The event's id.
    pub id: String,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its payload.
    pub body: String,
    /// When it came.
    pub at: Instant,
    /// Which arrival it is, counted from 0. The destination answers with it.
    pub receipt: usize,
}

/// What the destination answers.
pub type Habit = Arc<dyn Fn(Arrival) -> BoxFuture<'static, StatusCode> + Send + Sync>;

/// Accepts everything at once.
pub fn willing() -> Habit {
    Arc::new(|_| Box::pin(async { StatusCode::NO_CONTENT }))
}

/// Accepts everything after a while.
pub fn slow(after: Duration) -> Habit {
    Arc::new(move |_| {
        Box::pin(async move {
            tokio::time::sleep(after).await;
            StatusCode::NO_CONTENT
        })
    })
}

/// Accepts everything after a while, and counts how many were inside at once at the most.
pub fn counting(after: Duration, most: Arc<AtomicUsize>) -> Habit {
    let inside = Arc::new(AtomicUsize::new(0));
    Arc::new(move |_| {
        let (inside, most) = (inside.clone(), most.clone());
        Box::pin(async move {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(after).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            StatusCode::NO_CONTENT
        })
    })
}

/// A destination on a loopback port.
pub struct Receiver {
    address: SocketAddr,
    book: Arc<Book>,
}

struct Book {
    arrivals: Mutex<Vec<Arrival>>,
    count: watch::Sender<usize>,
    habit: Habit,
}

impl Book {
    fn arrivals(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.arrivals.lock().expect("nobody panics with the book in hand")
    }
}

impl Receiver {
    /// Starts a destination.
    pub async fn start(habit: Habit) -> Result<Receiver> {
        Receiver::start_at("127.0.0.1:0".parse()?, habit).await
    }

    /// Starts a destination at an address.
    pub async fn start_at(address: SocketAddr, habit: Habit) -> Result<Receiver> {
        let listener = TcpListener::bind(address).await.context("the destination's port")?;
        let address = listener.local_addr()?;
        let (arrivals, count) = (Mutex::default(), watch::Sender::new(0));
        let book = Arc::new(Book { arrivals, count, habit });
        let app = Router::new()
            .route("/{by}", post(take_in).options(async || StatusCode::NO_CONTENT))
            .with_state(book.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Receiver { address, book })
    }

    /// Returns where one relay posts to.
    pub fn url(&self, by: &str) -> String {
        format!("http://{}/{by}", self.address)
    }

    /// Returns everything that came so far.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.book.arrivals().clone()
    }

    /// Waits until what came answers a question.
    pub async fn until<T>(
        &self,
        what: &str,
        at_most: Duration,
        ask: impl Fn(&[Arrival]) -> Option<T>,
    ) -> Result<T> {
        let mut news = self.book.count.subscribe();
        let asking = async {
            loop {
                let answer = ask(&self.book.arrivals());
                match answer {
                    Some(answer) => return answer,
                    None => drop(news.changed().await),
                }
            }
        };
        tokio::time::timeout(at_most, asking).await.with_context(|| {
            format!("after {at_most:?} and {} arrivals: not {what}", self.book.arrivals().len())
        })
    }

    /// Waits until so many different events have come.
    pub async fn until_distinct(&self, count: usize, at_most: Duration) -> Result<()> {
        let what = format!("{count} different events");
        self.until(&what, at_most, |arrivals| (first(arrivals).len() >= count).then_some(())).await
    }
}

/// Returns the first arrival of each event.
pub fn first(arrivals: &[Arrival]) -> Vec<&Arrival> {
    let mut seen = std::collections::HashSet::new();
    arrivals.iter().filter(|arrival| seen.insert(&arrival.id)).collect()
}

async fn take_in(
    State(book): State<Arc<Book>>,
    Path(by): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, String); 1]) {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let mut arrival = Arrival {
        by,
        id: header("idempotency-key").unwrap_or_default().to_owned(),
        key: header("ce-subject").map(str::to_owned),
        body: String::from_utf8_lossy(&body).into_owned(),
        at: Instant::now(),
        receipt: 0,
    };
    {
        let mut arrivals = book.arrivals();
        arrival.receipt = arrivals.len();
        arrivals.push(arrival.clone());
    }
    book.count.send_modify(|count| *count += 1);
    let receipt = arrival.receipt.to_string();
    ((book.habit)(arrival).await, [("x-request-id", receipt)])
}
