//! How others build a queue in SQL: shapes, not products.

/// One shape: how a batch is claimed and how it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether a commit waits for the disk.
    pub(crate) sure: bool,
    pub(crate) end: End,
}

/// How rows end that were claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Delete,
    Mark,
}

pub(super) const CLAIM_DELETE: Shape = Shape {
    name: "claim_delete",
    what: "shape: claim by UPDATE with SKIP LOCKED, then DELETE",
    sure: true,
    end: End::Delete,
};

pub(super) const CLAIM_DELETE_QUICK: Shape = Shape {
    name: "claim_delete_quick",
    what: "the same with synchronous_commit off, which the relay has",
    sure: false,
    end: End::Delete,
};

pub(super) const CLAIM_MARK: Shape = Shape {
    name: "claim_mark",
    what: "shape: claim by UPDATE with SKIP LOCKED, then a status column",
    sure: true,
    end: End::Mark,
};
