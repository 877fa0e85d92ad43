//! Keeps denials, so that callers can ask for the reasons later.
//!
//! A denial changes nothing, so it is not an entry of the ledger. The latest denials are kept beside the ledger, with
//! the numbers on which they were decided; their number, bytes and age are bounded. They survive a restart, and a kill:
//! they are handed to the operating system at once, but not synced, so a power cut may lose the last ones.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use quota_client::wire::{AsOf, Denial, DeniedObject};
use quota_core::{
    bounded_memory::BoundedMemory,
    decide::{Refusal, Request},
    event::{Actor, Sequence},
    state::Head,
};
use quota_semantics::{
    Name, Span, Timestamp,
    admission::{CheckedLimit, CheckedQuota, LimitKind},
    resource::ResourceList,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    auth::Reader,
    config::Config,
    log_limiter::{LogLimiter, cut, shortened},
    metrics, now,
    problem::of_refusal,
};

/// Denials that wait to be kept; further ones are only counted.
const WAITING: usize = 4096;

/// How many denials are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most denials.
    pub records: usize,
    /// Most bytes.
    pub bytes: usize,
    /// Maximum age.
    pub age: Duration,
}

impl Bounds {
    /// The configured bounds.
    pub(crate) fn of(config: &Config) -> Self {
        let denials = &config.denials;
        Self {
            records: denials.max_records.get(),
            bytes: denials.max_bytes.as_usize(),
            age: denials.max_age.get(),
        }
    }
}

/// The kept denials. Cheap to clone.
#[derive(Clone)]
pub struct Denials {
    messages: SyncSender<Message>,
    counts: Arc<Mutex<Counts>>,
}

/// A kept denial.
#[derive(Clone, Debug)]
pub struct StoredDenial {
    /// The denial's number; later denials have higher numbers.
    pub id: u64,
    /// The last entry of the ledger at the decision.
    pub sequence: Sequence,
    /// The principal that made the request.
    pub principal: Name,
    /// The namespace of the request.
    pub namespace: Name,
    /// When the denial was kept.
    pub time: Timestamp,
    /// The record, as JSON.
    pub json: Arc<RawValue>,
}

/// Which denials to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only this namespace; none for all.
    pub namespace: Option<Name>,
    /// Only namespaces that this caller may read.
    pub reader: Reader,
    /// Only denials before this one; none to start at the latest.
    pub before: Option<u64>,
    /// Most denials to list.
    pub limit: usize,
}

/// A denial for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
    /// The position of the ledger at the decision.
    pub(crate) sequence: Sequence,
}

impl Denied<'_> {
    /// Logs the denial, if the limiter lets it pass.
    pub(crate) fn log(&self, limiter: &LogLimiter, refusal: &dyn fmt::Display) {
        let Some(held_back) = limiter.pass() else {
            return;
        };
        let Self { namespace, resource, name, sequence } = *self;
        let refusal = refusal.to_string();
        let refusal = shortened(&refusal);
        tracing::info!(namespace, resource, name, sequence, refusal, held_back, "denied");
    }
}

enum Message {
    Note(Box<Denial>),
    List(Query, oneshot::Sender<Vec<StoredDenial>>),
    End,
}

/// Opens the file of kept denials, or creates it, and starts the thread that keeps it.
///
/// # Errors
/// If the file cannot be read or written.
pub(crate) fn start(file: &Path, bounds: Bounds) -> std::io::Result<(Denials, JoinHandle<()>)> {
    let (messages, inbox) = mpsc::sync_channel(WAITING);
    let log = DenialLog::open(file, bounds, crate::now())?;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let counted = Arc::clone(&counts);
    let thread = std::thread::Builder::new().name("denials".into()).spawn(move || {
        let _guard = crate::fatal::EndOnPanic;
        log.run(&inbox, &counted);
    })?;
    Ok((Denials { messages, counts }, thread))
}

/// The record of a refusal at this time; none if it is not a denial.
pub(crate) fn denial(
    actor: &Arc<Actor>,
    request: &Request,
    refusal: &Refusal,
    head: Head,
    time: Timestamp,
) -> Option<Denial> {
    let denial = new(actor, request, refusal, head)?;
    Some(Denial { time, ..denial })
}

/// Adds denials of the past, the oldest first, to a file that nobody has open.
///
/// # Errors
/// If the file cannot be read or written.
pub(crate) fn store(file: &Path, bounds: Bounds, denials: Vec<Denial>) -> std::io::Result<()> {
    let mut log = DenialLog::open(file, bounds, Timestamp::EPOCH)?;
    for denial in denials {
        log.keep(&denial, denial.time);
    }
    Ok(())
}

impl Denials {
    /// Keeps a refusal if it is a denial. Never blocks.
    pub fn note(&self, actor: &Arc<Actor>, request: &Request, refusal: &Refusal, head: Head) {
        let Some(noted) = new(actor, request, refusal, head) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Note(Box::new(noted))) {
            metrics::denials_dropped();
        }
    }

    /// The matching denials, the latest first, including all that were noted before this call.
    pub async fn list(&self, query: Query) -> Vec<StoredDenial> {
        let (answer, answered) = oneshot::channel();
        let messages = self.messages.clone();
        let sent = tokio::task::spawn_blocking(move || messages.send(Message::List(query, answer)));
        if !matches!(sent.await, Ok(Ok(()))) {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }

    /// How many requests a limit has denied since the start: of a quota of a namespace, or of a group in any namespace.
    pub fn count(&self, kind: LimitKind, namespace: &Name, name: &Name) -> u64 {
        let place = place(kind, namespace, name);
        self.counts.lock().get(&place)
    }

    /// Lets the thread end once all noted denials are kept.
    pub fn close(&self) {
        // A failure means that the thread has ended already.
        let _ = self.messages.send(Message::End);
    }
}

// The stored record of a denial.

/// Most quotas that a record keeps: those that the request counts against.
const QUOTAS: usize = 32;

/// Most limits of these quotas that a record keeps: denials wait in memory until their records are written.
const LIMITS: usize = 256;

/// A record of a request for more resources than this keeps none of them.
const REQUESTED: usize = 1024;

/// Approximate size limit of a record; details are dropped from a larger one.
const RECORD_BYTES: usize = 32 * 1024;

/// Longest detail text of a record, in bytes.
const DETAIL_BYTES: usize = 4096;

/// The record of a refusal, still without its id and time; none if the refusal is not a denial.
fn new(
    actor: &Arc<Actor>,
    request: &Request,
    refusal: &Refusal,
    Head { sequence, time }: Head,
) -> Option<Denial> {
    let denied = match refusal {
        Refusal::Denied(denied) => Some(denied),
        Refusal::TooManyPending { .. } => None,
        _ => return None,
    };
    let (quotas, lacks_limits) = denied.map(|denied| wanted_of(&denied.quotas)).unwrap_or_default();
    let requested = &request.footprint.resources;
    let lacks_amounts = requested.len() > REQUESTED;
    Some(Denial {
        id: 0,
        time,
        namespace: request.namespace.clone(),
        actor: (**actor).clone(),
        object: DeniedObject {
            uid: request.uid.clone(),
            resource: request.resource.to_string(),
            name: request.name.clone(),
            requested: match lacks_amounts {
                true => ResourceList::new(),
                false => requested.clone(),
            },
        },
        reason: Cow::Borrowed(of_refusal(refusal).as_str()),
        detail: cut(&refusal.to_string(), DETAIL_BYTES).to_owned(),
        quotas,
        retry_after: denied.and_then(|denied| denied.retry_after),
        fits_when_empty: denied.map(|denied| denied.fits_when_empty),
        shortened: lacks_limits || lacks_amounts,
        as_of: AsOf { sequence, time },
    })
}

/// The record as JSON. Of a large one, quotas are dropped first, then the requested amounts.
fn to_json(denial: &Denial, id: u64, time: Timestamp) -> serde_json::Result<String> {
    let mut denial = Denial { id, time, ..denial.clone() };
    let mut json = serde_json::to_string(&denial)?;
    while json.len() > RECORD_BYTES {
        match denial.quotas.len() {
            0 if denial.object.requested.is_empty() => break,
            0 => denial.object.requested = ResourceList::new(),
            count => denial.quotas.truncate(count / 2),
        }
        denial.shortened = true;
        json = serde_json::to_string(&denial)?;
    }
    Ok(json)
}

/// The limits that the request counts against, and whether there are more than are kept.
fn wanted_of(quotas: &[CheckedQuota]) -> (Vec<CheckedQuota>, bool) {
    let mut wanted = Vec::new();
    let mut room = LIMITS;
    for quota in quotas {
        let is_wanted = |limit: &&CheckedLimit| !limit.requested.is_zero();
        let count = quota.resources.iter().filter(is_wanted).count();
        if count == 0 {
            continue;
        }
        if wanted.len() == QUOTAS || room == 0 {
            return (wanted, true);
        }
        let kept = quota.resources.iter().filter(is_wanted).take(room);
        wanted.push(CheckedQuota {
            name: quota.name.clone(),
            kind: quota.kind,
            resources: kept.cloned().collect(),
        });
        if count > room {
            return (wanted, true);
        }
        room -= count;
    }
    (wanted, false)
}

// The kept denials in memory: bounded in number, bytes and age, with a fair share for each principal, and
// of that for each of its namespaces.

/// Denials by number.
#[derive(Default)]
struct Store {
    denials: BTreeMap<u64, StoredDenial>,
    shares: BoundedMemory<u64>,
}

impl Store {
    fn len(&self) -> usize {
        self.denials.len()
    }

    const fn bytes(&self) -> usize {
        self.shares.bytes()
    }

    /// The number of the latest denial.
    fn last(&self) -> Option<u64> {
        self.denials.last_key_value().map(|(id, _)| *id)
    }

    /// The kept denials, oldest first.
    fn iter(&self) -> impl Iterator<Item = &StoredDenial> {
        self.denials.values()
    }

    fn list(&self, query: &Query) -> Vec<StoredDenial> {
        let before = query.before.unwrap_or(u64::MAX);
        let earlier = self.denials.range(..before).rev();
        let namespace = query.namespace.as_ref();
        earlier
            .map(|(_, denial)| denial)
            .filter(|denial| namespace.is_none_or(|namespace| denial.namespace == *namespace))
            .filter(|denial| query.reader.reads(&denial.namespace))
            .take(query.limit)
            .cloned()
            .collect()
    }

    /// Adds a denial; if there are too many, removes the oldest of the principal, and of its namespace, that takes the
    /// most room.
    fn keep(&mut self, denial: StoredDenial, bounds: &Bounds) {
        let id = denial.id;
        self.remove(id);
        let bytes = denial.json.get().len();
        self.shares.add(&denial.principal, &denial.namespace, id, bytes);
        self.denials.insert(id, denial);
        while self.len() > bounds.records || self.bytes() > bounds.bytes {
            if self.len() <= bounds.records {
                metrics::limit_reached(metrics::Limit::DenialBytes);
            }
            let Some(oldest) = self.shares.first_to_go() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// Removes denials that are too old.
    fn forget(&mut self, bounds: &Bounds, now: Timestamp) {
        let age = i64::try_from(bounds.age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now.minus(Span::from_nanoseconds(age));
        while let Some((&id, first)) = self.denials.first_key_value()
            && first.time < oldest
        {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(denial) = self.denials.remove(&id) {
            self.shares.remove(&denial.principal, &denial.namespace, id);
        }
    }
}

/// Most quotas and groups that are counted. A count that is left out begins with 0 again, as after a restart.
const COUNTED_MAX: usize = 16_384;

/// A namespace and a quota; without a namespace, a group.
type Place = (Name, Name);

/// The counts.
#[derive(Default)]
struct Counts {
    denials: HashMap<Place, (u64, u64)>,
    /// The principal whose request was counted first, and its namespace, by the number of that request.
    begun: BTreeMap<u64, (Place, Name, Name)>,
    shares: BoundedMemory<u64>,
    next: u64,
}

impl Counts {
    /// Counts a denial for each quota and group that it exceeds.
    fn add(&mut self, denial: &Denial) {
        for quota in &denial.quotas {
            if quota.resources.iter().any(CheckedLimit::is_exceeded) {
                self.add_one(place(quota.kind, &denial.namespace, &quota.name), denial);
            }
        }
    }

    /// How many requests a quota of a namespace, or a group, has denied.
    fn get(&self, place: &Place) -> u64 {
        self.denials.get(place).map_or(0, |(_, count)| *count)
    }

    fn add_one(&mut self, place: Place, denial: &Denial) {
        if let Some((_, count)) = self.denials.get_mut(&place) {
            *count = count.saturating_add(1);
            return;
        }
        let key = self.next;
        self.next = key.saturating_add(1);
        let (principal, namespace) = (&denial.actor.principal, &denial.namespace);
        self.shares.add(principal, namespace, key, 1);
        self.begun.insert(key, (place.clone(), principal.clone(), namespace.clone()));
        self.denials.insert(place, (key, 1));
        while self.denials.len() > COUNTED_MAX
            && let Some(first) = self.shares.first_to_go()
        {
            self.remove(first);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some((place, principal, namespace)) = self.begun.remove(&key) {
            self.shares.remove(&principal, &namespace, key);
            self.denials.remove(&place);
        }
    }
}

/// The place of a quota of a namespace, or of a group, whatever the namespace.
fn place(kind: LimitKind, namespace: &Name, name: &Name) -> Place {
    let namespace = match kind {
        LimitKind::ResourceQuota => namespace.clone(),
        LimitKind::ClusterResourceQuota => Name::default(),
    };
    (namespace, name.clone())
}

// The thread that keeps denials in memory, and in a file with one JSON object per line. The file is rewritten when
// most of its lines are no longer kept.

/// How often expired denials are removed.
const TICK: Duration = Duration::from_secs(60);

/// Lines that the file may have beyond twice the number of kept denials.
const SLACK: usize = 256;

/// Bytes that the file may have beyond twice the size of kept denials.
const SLACK_BYTES: usize = 4 * 1024 * 1024;

/// Longer lines of the file were not written by this program.
const LINE_BYTES: usize = 1024 * 1024;

/// The fields of a line that the log needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredLine {
    id: u64,
    time: Timestamp,
    namespace: Name,
    actor: Actor,
    as_of: AsOf,
}

struct DenialLog {
    path: PathBuf,
    bounds: Bounds,
    store: Store,
    next: u64,
    file: File,
    lines: usize,
    /// The size of the file.
    bytes: usize,
    failing: bool,
}

impl DenialLog {
    fn open(path: &Path, bounds: Bounds, now: Timestamp) -> io::Result<Self> {
        let mut store = Store::default();
        match File::open(path) {
            Ok(file) => read(file, &bounds, &mut store)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let next = store.last().map_or(1, |last| last.saturating_add(1));
        store.forget(&bounds, now);
        let file = write_anew(path, &store)?;
        Ok(Self {
            path: path.to_path_buf(),
            bounds,
            lines: store.len(),
            bytes: store.bytes(),
            store,
            next,
            file,
            failing: false,
        })
    }

    /// Runs until it receives `End`, or every sender is gone.
    fn run(mut self, inbox: &Receiver<Message>, counts: &Mutex<Counts>) {
        loop {
            match inbox.recv_timeout(TICK) {
                Ok(Message::Note(noted)) => {
                    counts.lock().add(&noted);
                    self.keep(&noted, now());
                }
                Ok(Message::List(query, answer)) => {
                    self.store.forget(&self.bounds, now());
                    // The caller may have stopped waiting.
                    let _ = answer.send(self.store.list(&query));
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.store.forget(&self.bounds, now());
                    self.tidy();
                }
            }
        }
    }

    fn keep(&mut self, noted: &Denial, now: Timestamp) {
        let id = self.next;
        let json = to_json(noted, id, now).and_then(RawValue::from_string);
        let Ok(json) = json else {
            return;
        };
        self.next = id.saturating_add(1);
        let line = format!("{json}\n");
        let denial = StoredDenial {
            id,
            sequence: noted.as_of.sequence,
            principal: noted.actor.principal.clone(),
            namespace: noted.namespace.clone(),
            time: now,
            json: json.into(),
        };
        self.store.keep(denial, &self.bounds);
        self.store.forget(&self.bounds, now);
        let written = self.file.write_all(line.as_bytes());
        self.lines += 1;
        self.bytes += line.len();
        self.report(written);
        self.tidy();
    }

    /// Rewrites the file if most of its lines are no longer kept.
    fn tidy(&mut self) {
        let few = self.lines <= self.store.len() * 2 + SLACK;
        if few && self.bytes <= self.store.bytes() * 2 + SLACK_BYTES {
            return;
        }
        (self.lines, self.bytes) = (self.store.len(), self.store.bytes());
        let written = write_anew(&self.path, &self.store).map(|file| self.file = file);
        self.report(written);
    }

    /// Logs the first of consecutive failures: denials can still be answered from memory.
    fn report(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::warn!(%error, file = %self.path.display(), "denials are not stored");
            }
            Err(_) => {}
        }
    }

    #[cfg(test)]
    fn line_count(&self) -> usize {
        self.lines
    }
}

/// Skips lines that cannot be read, such as a line that a kill has cut off.
fn read(file: File, bounds: &Bounds, store: &mut Store) -> io::Result<()> {
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        if line.len() > LINE_BYTES {
            continue;
        }
        let Ok(text) = String::from_utf8(line) else {
            continue;
        };
        let Ok(line) = serde_json::from_str::<StoredLine>(&text) else {
            continue;
        };
        let Ok(json) = RawValue::from_string(text) else {
            continue;
        };
        let denial = StoredDenial {
            id: line.id,
            sequence: line.as_of.sequence,
            principal: line.actor.principal,
            namespace: line.namespace,
            time: line.time,
            json: json.into(),
        };
        store.keep(denial, bounds);
    }
    Ok(())
}

fn write_anew(path: &Path, store: &Store) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension("tmp");
    let mut output = io::BufWriter::new(File::create(&temporary)?);
    for denial in store.iter() {
        writeln!(output, "{}", denial.json)?;
    }
    output.into_inner().map_err(io::IntoInnerError::into_error)?;
    std::fs::rename(&temporary, path)?;
    OpenOptions::new().append(true).open(path)
}
