//! How others build a queue in SQL: shapes, not products.

/// One shape: how a batch is claimed and how it ends.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Whether a commit waits for the disk.
    pub(super) sure: bool,
    /// How rows that were claimed end; $1 are their numbers.
    pub(super) end: &'static str,
}

/// The table of every shape, as large as ours.
pub(super) const TABLE: &str = "
    CREATE TABLE queue (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        event_id uuid NOT NULL DEFAULT gen_random_uuid(), topic text NOT NULL,
        event_type text NOT NULL, biz_key text, payload text, headers text NOT NULL DEFAULT '{}',
        status smallint NOT NULL DEFAULT 0, attempts integer NOT NULL DEFAULT 0, owner text,
        due_at timestamptz NOT NULL DEFAULT now(), created_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX queue_due ON queue (due_at, id) WHERE status = 0";

/// Claims a batch: it is due again when nobody has ended it in time.
pub(super) const CLAIM: &str = "
    WITH next AS MATERIALIZED (
        SELECT id FROM queue WHERE status = 0 AND due_at <= now()
        ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    UPDATE queue SET attempts = queue.attempts + 1, owner = $2, due_at = now() + interval '30 s'
    FROM next WHERE queue.id = next.id
    RETURNING queue.id, queue.event_id, queue.topic, queue.event_type, queue.biz_key,
        queue.payload, queue.headers";

const DELETE: &str = "DELETE FROM queue WHERE id = ANY ($1)";
const MARK: &str = "UPDATE queue SET status = 1, owner = NULL WHERE id = ANY ($1)";

/// What runs on PostgreSQL.
pub(super) const POSTGRES: &[Shape] = &[
    Shape {
        name: "claim_delete",
        what: "shape: claim by UPDATE with SKIP LOCKED, then DELETE",
        sure: true,
        end: DELETE,
    },
    Shape {
        name: "claim_delete_quick",
        what: "the same with synchronous_commit off, which the relay has",
        sure: false,
        end: DELETE,
    },
    Shape {
        name: "claim_mark",
        what: "shape: claim by UPDATE with SKIP LOCKED, then a status column",
        sure: true,
        end: MARK,
    },
];
