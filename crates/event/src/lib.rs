//! The hall: the words, the rules and the seams that every room shares.
//!
//! Nothing here does I/O, reads a clock or knows a database, a broker or a page.

mod arrival;
mod cause;
mod consumed;
mod crowd;
mod envelope;
mod event;
mod feed;
mod headers;
mod inspection;
mod judge;
mod lease;
mod listing;
mod live;
mod order;
mod outcome;
mod row;
mod seam;
mod secret;
mod sequence;
mod time;
mod topic;

pub use cause::{Cause, Code, EXPLANATIONS, Explanation, explain};
pub use consumed::{Consumed, Witness};
pub use crowd::{Crowd, Teller};
pub use envelope::Envelope;
pub use event::{Event, EventId, Invalid, Limits, Payload};
pub use feed::{Delivery, Feed, Handle, Nack};
pub use headers::Headers;
pub use inspection::{Durability, Finding, Gauge, Grade, Inspection, Level};
pub use judge::{Backoff, Limit, Policy};
pub use lease::Leased;
pub use listing::{Counts, Cursor, Filter, Listed, Listing, Moment, Page, Requeued, Status};
pub use live::{Beat, LaneState, LaneView, Pulse, SinkView};
pub use order::{Hand, Joins, Order, Turns};
pub use outcome::{Answer, Outcome, Receipt, Refusal, Settled, Settlement};
pub use row::{Address, Claim, Fence, Place, Row, Shelf};
pub use seam::{
    Aside, Begun, Catalog, Chores, Clock, Inbox, InboxEnd, Keep, Sink, Source, StoreError, Swept,
    Want,
};
pub use secret::{Secret, scrub};
pub use sequence::Sequence;
pub use time::Millis;
pub use topic::{Pattern, PatternError, Topics};
