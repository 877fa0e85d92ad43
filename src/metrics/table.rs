//! Every metric: its name, kind, labels and help. `docs/metrics.md` is made from this table.

use super::labels::{
    AuditEvent, AuthRefusal, CheckpointPlace, ClusterAppend, ClusterRole, Correction,
    CorrectionCause, Decision, Digest, Forwarded, Label, Limit, Listener, Operation, Outcome, Part,
    Rejection, RelistRequest, Relisted, ReservationState, Source, StateLock,
};
use crate::reason::Reason;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// How it is counted.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [LabelKey],
    /// What it says.
    pub help: &'static str,
}

/// How a metric is counted.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// A current value.
    Gauge,
    /// Counts per upper bound.
    Histogram(&'static [f64]),
}

/// A label's name and values.
#[derive(Clone, Copy, Debug)]
pub struct LabelKey {
    /// Its name.
    pub name: &'static str,
    /// Its values; empty if they are unknown beforehand, but bounded otherwise.
    pub values: &'static [&'static str],
}

const fn closed<L: Label>() -> LabelKey {
    LabelKey {
        name: L::NAME,
        values: L::VALUES,
    }
}

const fn open(name: &'static str) -> LabelKey {
    LabelKey { name, values: &[] }
}

/// From what memory takes to what a disk in trouble takes.
const SECONDS: Kind = Kind::Histogram(&[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
]);

/// For work in the background.
const LONG_SECONDS: Kind = Kind::Histogram(&[
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
]);

const ENTRIES: Kind = Kind::Histogram(&[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
]);

use Kind::{Counter, Gauge};

macro_rules! table {
    ($($id:ident $kind:ident $name:literal $([$($label:expr),*])? $help:literal)*) => {
        $(pub(super) const $id: Metric =
            Metric { name: $name, kind: $kind, labels: &[$($($label),*)?], help: $help };)*

        /// Every metric.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

table! {
    DECISIONS Counter "quota_ledger_decisions_total" [closed::<Decision>(), closed::<Option<Reason>>()]
        "Decisions on requests for capacity."
    DECISION_DURATION SECONDS "quota_ledger_decision_duration_seconds" [closed::<Operation>()]
        "From the arrival of a command to its answer, durability included."
    LARGE_ANSWERS Counter "quota_ledger_large_answers_total"
        "Answers that were made on threads of their own, one of a principal at a time."
    DENIALS_DROPPED Counter "quota_ledger_denials_dropped_total"
        "Denials that are not listed, since too many came at once."
    LIMITS_PASSED Counter "quota_ledger_audited_limits_passed_total"
        "Grants that passed a limit which is only noted (enforcement: audit), once for each such limit."
    RESERVATIONS Gauge "quota_ledger_reservations" [closed::<ReservationState>()]
        "Reservations that have not ended."
    OLDEST_RESERVATION_AGE Gauge "quota_ledger_oldest_reservation_age_seconds"
        "Age of the oldest pending reservation; 0 if there is none."
    RESERVATION_OUTCOMES Counter "quota_ledger_reservation_outcomes_total" [closed::<Outcome>()]
        "Reservations that ended; many expired ones mean that objects are not created or not seen."
    AUDIT_EVENTS Counter "quota_ledger_audit_events_total" [closed::<AuditEvent>()]
        "Audit events of API servers, by what became of them."
    QUOTAS_ENFORCED_TWICE Gauge "quota_ledger_quotas_enforced_twice"
        "Adopted quotas, which the API server's own quota plugin enforces as well (quotas.plugin_is_off: none)."
    PLUGIN_DENIALS Counter "quota_ledger_plugin_denials_total"
        "Creations that the API server's own quota plugin refused after all webhooks, by its audit events."
    CLUSTER_ROLE Gauge "quota_ledger_cluster_role" [closed::<ClusterRole>()]
        "1 for the role of this node in its cluster, 0 for the others; absent if there is no cluster."
    CLUSTER_TERM Gauge "quota_ledger_cluster_term"
        "The leader's term, as far as this node has read; each change of the leader begins the next."
    CLUSTER_TERMS_BEGUN Counter "quota_ledger_cluster_terms_begun_total"
        "Times that this node began to lead."
    CLUSTER_DEPOSED Counter "quota_ledger_cluster_deposed_total"
        "Times that another node took the lead from this one, which dropped what was not in the log."
    CLUSTER_REPLICA_AGE Gauge "quota_ledger_cluster_replica_age_seconds"
        "How long ago this node's replica was last known to hold all of the log; 0 for a leader within its lease, +Inf if that was not known since it last began to follow."
    CLUSTER_IN_FLIGHT Gauge "quota_ledger_cluster_append_in_flight_seconds"
        "For how long an append has been on its way to the log; 0: none is."
    CLUSTER_APPENDS Gauge "quota_ledger_cluster_appends" [closed::<ClusterAppend>()]
        "Appends since this node last began to follow, by what was unusual about them."
    CLUSTER_CLOCK_SKEW Gauge "quota_ledger_cluster_clock_skew_seconds"
        "How far this node's clock is ahead of the servers' (negative: behind). Above cluster.max_clock_skew, either way, the node does not lead."
    CLUSTER_DIGESTS Counter "quota_ledger_cluster_digest_comparisons_total" [closed::<Digest>()]
        "Comparisons of the digest of this node's state with those of other nodes at the same entry, by what they showed."
    CLUSTER_STREAM_BYTES Gauge "quota_ledger_cluster_stream_bytes" []
        "Bytes of the stream that holds the log, as of the leader's last check. A purge keeps cluster.stream_bytes."
    CLUSTER_STREAM_FIRST Gauge "quota_ledger_cluster_stream_first_sequence" []
        "The first message of the stream, as of the leader's last check; earlier ones were purged."
    CLUSTER_STORAGE_USED Gauge "quota_ledger_cluster_storage_used_ratio" []
        "The share of the servers' storage, or of the stream's own limit, that is used where it is fullest; at 1 appends are refused."
    CLUSTER_FORWARDED Counter "quota_ledger_cluster_forwarded_total" [closed::<Forwarded>()]
        "Requests that were passed on to the leader, by what became of them."
    ENDED_RESERVATIONS_BYTES Gauge "quota_ledger_ended_reservations_bytes"
        "Bytes of ended reservations that are remembered for repeated requests; limits.ended_reservations_bytes bounds them."
    STATE_LOCK SECONDS "quota_ledger_state_lock_seconds" [closed::<StateLock>()]
        "How long the state was held at a time: by the writer, while readers wait, and by a reader, while the writer waits."
    LEDGER_LAST_SEQUENCE Gauge "quota_ledger_ledger_last_sequence"
        "Sequence of the last durable entry."
    LEDGER_BYTES Gauge "quota_ledger_ledger_bytes" [closed::<Part>()]
        "Size of the ledger on disk."
    LEDGER_APPEND_DURATION SECONDS "quota_ledger_ledger_append_duration_seconds"
        "Time to make one batch durable: write and fsync."
    LEDGER_FSYNC_DURATION SECONDS "quota_ledger_ledger_fsync_duration_seconds"
        "Time of one fsync of the write-ahead log."
    LEDGER_BATCH_ENTRIES ENTRIES "quota_ledger_ledger_batch_entries"
        "Entries per batch."
    EVENTS_CONSUMED Counter "quota_ledger_events_consumed_total" [closed::<Source>()]
        "Events that were accepted."
    EVENTS_DUPLICATE Counter "quota_ledger_events_duplicate_total" [closed::<Source>()]
        "Events that changed nothing, since they or newer ones were known."
    EVENTS_REJECTED Counter "quota_ledger_events_rejected_total" [closed::<Rejection>()]
        "Events that were rejected; they are kept, and can be listed and replayed."
    RESOURCES_LEFT_OUT Counter "quota_ledger_resources_left_out_total"
        "Resources that do not count, since their object names more than an entry can hold. The log names the object."
    DRIFT_CORRECTIONS Counter "quota_ledger_drift_corrections_total"
        [closed::<Correction>(), closed::<CorrectionCause>()]
        "Objects that were put right without an event: each was missed by a source before."
    DRIFT_RELISTS Counter "quota_ledger_drift_relists_total" [closed::<Relisted>()]
        "Relists, by what became of them."
    DRIFT_RELISTS_OPEN Gauge "quota_ledger_drift_relists_open"
        "Relists that have begun and are not over; one that stays open was cut off."
    RELISTS_REQUESTED Counter "quota_ledger_relists_asked_total" [closed::<RelistRequest>()]
        "Relists that were requested of publishers, since events may have been lost."
    UID_COLLISIONS Gauge "quota_ledger_uid_collisions"
        "Objects with the uid of an object in another namespace. Both are counted correctly, but somebody invents uids."
    STREAM_LAG_MESSAGES Gauge "quota_ledger_stream_lag_messages"
        "Messages in the stream that are not consumed yet."
    STREAM_LAG Gauge "quota_ledger_stream_lag_seconds"
        "How long ago the stream was last known to be consumed to its end, or since the start; grows while NATS is gone."
    WATERMARK_AGE Gauge "quota_ledger_watermark_age_seconds" [open("resource")]
        "How long ago the publisher last said that it has shown all of a kind, or the start; with nats.watermark = bridge."
    WATERMARKS_SKIPPED Counter "quota_ledger_watermarks_skipped_total"
        "Kinds in bookmarks of publishers that were skipped, since they could not be read or were too many."
    STREAM_CONNECTED Gauge "quota_ledger_stream_connected"
        "1 while the stream is connected, else 0; absent if none is configured."
    SNAPSHOT_DURATION LONG_SECONDS "quota_ledger_snapshot_duration_seconds"
        "Time to store one snapshot."
    SNAPSHOT_LAST_SUCCESS Gauge "quota_ledger_snapshot_last_success_timestamp_seconds"
        "When the last snapshot was stored."
    SNAPSHOT_LAST_SEQUENCE Gauge "quota_ledger_snapshot_last_sequence"
        "Last entry of the newest snapshot."
    SNAPSHOT_FAILURES Counter "quota_ledger_snapshot_failures_total"
        "Snapshots that could not be stored."
    COMPACTION_DURATION LONG_SECONDS "quota_ledger_compaction_duration_seconds"
        "Time of one compaction."
    COMPACTION_LAST_SUCCESS Gauge "quota_ledger_compaction_last_success_timestamp_seconds"
        "When compaction last ended well."
    COMPACTION_REMOVED Counter "quota_ledger_compaction_removed_entries_total"
        "Entries that compaction moved out of the ledger."
    COMPACTION_FAILURES Counter "quota_ledger_compaction_failures_total"
        "Compactions that failed."
    CHECKPOINT_LAST_SEQUENCE Gauge "quota_ledger_checkpoint_last_sequence"
        "Sequence of the last checkpoint that was signed."
    CHECKPOINT_FAILURES Counter "quota_ledger_checkpoint_failures_total"
        "Checkpoints that could not be stored, and failed attempts to deliver one."
    CHECKPOINT_DELIVERED_SEQUENCE Gauge "quota_ledger_checkpoint_delivered_sequence" [closed::<CheckpointPlace>()]
        "Sequence of the last checkpoint that was delivered to the place."
    CHECKPOINT_UNDELIVERED Gauge "quota_ledger_checkpoint_undelivered" [closed::<CheckpointPlace>()]
        "Checkpoints that wait to be delivered to the place."
    CHECKPOINT_GIVEN_UP Counter "quota_ledger_checkpoint_given_up_total" [closed::<CheckpointPlace>()]
        "Checkpoints that were never delivered to the place, since too many waited."
    BACKUP_LAST_SEQUENCE Gauge "quota_ledger_backup_last_sequence"
        "Last entry of the newest backup."
    BACKUP_FAILURES Counter "quota_ledger_backup_failures_total"
        "Backups that were not sent to their end."
    LIMIT_REACHED Counter "quota_ledger_limit_reached_total" [closed::<Limit>()]
        "How often a configured bound was hit."
    DISK_FREE Gauge "quota_ledger_disk_free_bytes"
        "Bytes that are free where the data directory is."
    DISK_LOW Gauge "quota_ledger_disk_low"
        "1 while fewer bytes are free than disk.min_free: nothing is granted, and no events are consumed."
    POISONED Gauge "quota_ledger_poisoned"
        "1 after a failed write or fsync: nothing is answered any more."
    BUILD_INFO Gauge "quota_ledger_build_info" [open("version"), open("revision")]
        "Always 1; the labels name the running version."
    HTTP_REQUESTS Counter "quota_ledger_http_requests_total"
        [open("route"), open("method"), open("code")]
        "Requests by matched route (not path), method and status."
    HTTP_REQUEST_DURATION SECONDS "quota_ledger_http_request_duration_seconds" [open("route")]
        "From the end of a request's head to the begin of its answer."
    HTTP_CONNECTIONS Gauge "quota_ledger_http_connections" [closed::<Listener>()]
        "Open connections."
    CERTIFICATE_EXPIRATION Gauge "quota_ledger_certificate_expiration_timestamp_seconds"
        "When the webhook's certificate expires; absent without one."
    CERTIFICATE_RELOAD_FAILURES Counter "quota_ledger_certificate_reload_failures_total"
        "New certificate files that could not be used; the old ones stayed in force."
    AUTH_REFUSED Counter "quota_ledger_auth_refused_total" [closed::<AuthRefusal>()]
        "Requests that were answered with 401 (missing, malformed, unknown, expired) or 403."
    TOKENS_RELOAD_FAILURES Counter "quota_ledger_tokens_reload_failures_total"
        "New tokens files that could not be used; the old one stayed in force."
    KUBE_RESOURCEQUOTA Gauge "kube_resourcequota"
        [open("resourcequota"), open("namespace"), open("resource"), open("type")]
        "Limits, usage and reservations (type hard, used, reserved), as kube-state-metrics names them."
    KUBE_RESOURCEQUOTA_CREATED Gauge "kube_resourcequota_created"
        [open("resourcequota"), open("namespace")]
        "When a quota was created, in seconds since 1970."
    LIMIT_NOT_ENFORCED Gauge "quota_ledger_limit_not_enforced"
        [open("resourcequota"), open("namespace"), open("resource")]
        "1 for each limit that the API server does not ask about, since the webhook's rules do not list its kind (admission.count)."
    QUOTAS_LEFT_OUT Gauge "quota_ledger_quotas_left_out"
        "Quotas without series in kube_resourcequota, since limits.metrics_series is reached; the fullest are exported."
    GROUP_USAGE Gauge "openshift_clusterresourcequota_usage" [open("name"), open("resource"), open("type")]
        "Limits, usage and reservations of a group, and what it guarantees to the groups below it and they do not use (type hard, used, reserved, guaranteed), as openshift-state-metrics names them."
    GROUP_NAMESPACE_USAGE Gauge "openshift_clusterresourcequota_namespace_usage"
        [open("name"), open("resource"), open("type"), open("namespace")]
        "The limit of a group, and what each namespace uses and has reserved of it (type hard, used, reserved)."
    GROUP_SELECTOR Gauge "openshift_clusterresourcequota_selector"
        [open("name"), open("type"), open("key"), open("value"), open("operator"), open("values")]
        "Always 1; the labels say which namespaces a group is for (type annotation, match-labels, match-expressions)."
    GROUP_CREATED Gauge "openshift_clusterresourcequota_created" [open("name")]
        "When a group was created, in seconds since 1970."
    GROUP_LABELS Gauge "openshift_clusterresourcequota_labels" [open("name")]
        "Always 1; the labels of a group, each as label_ and its key."
    GROUPS_LEFT_OUT Gauge "quota_ledger_groups_left_out"
        "Groups without series in openshift_clusterresourcequota_usage, since limits.metrics_series is reached; the fullest are exported."
    GROUP_NAMESPACES_LEFT_OUT Gauge "quota_ledger_group_namespaces_left_out"
        "Groups without series in openshift_clusterresourcequota_namespace_usage, since limits.metrics_series is reached."
    PROCESS_CPU Counter "process_cpu_seconds_total"
        "User and system time spent."
    PROCESS_RESIDENT_MEMORY Gauge "process_resident_memory_bytes"
        "Memory that is resident."
    PROCESS_VIRTUAL_MEMORY Gauge "process_virtual_memory_bytes"
        "Memory that is mapped."
    PROCESS_OPEN_FDS Gauge "process_open_fds"
        "Open file descriptors."
    PROCESS_MAX_FDS Gauge "process_max_fds"
        "File descriptors that may be open."
    PROCESS_THREADS Gauge "process_threads"
        "Threads."
    PROCESS_START_TIME Gauge "process_start_time_seconds"
        "When the process started, in seconds since 1970."
}
