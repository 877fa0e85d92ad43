//! A disk that fills up: nothing is granted below a mark, nothing acknowledged is lost when there is no room at all,
//! and it goes on by itself when there is room again.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    session::{Step, Told, UNHURRIED, UNITS, ask, missing, verify},
    support::{
        in_memory,
        nats::Server,
        quotad::{Quotad, command},
        shim, wait_until,
    },
};

const MIB: u64 = 1024 * 1024;

const NAMESPACE: &str = "/v1/namespaces/team-a";

/// Room of the disk in these tests.
const ROOM: u64 = 24 * MIB;

/// A small disk, that can be filled up.
struct Disk {
    directory: TempDir,
    /// With the shim: the file that says how much room there is. Else it is a file system of its own.
    room: Option<PathBuf>,
}

impl Disk {
    /// One that the shim makes believe.
    fn pretended() -> Self {
        let directory = in_memory();
        let room = directory.path().join("room");
        std::fs::write(&room, ROOM.to_string()).unwrap();
        Self { directory, room: Some(room) }
    }

    /// A file system in memory, where one may be mounted.
    fn mounted() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let size = format!("size={ROOM}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        let room = None;
        mounted.then_some(Self { directory, room })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self) -> Command {
        let mut command = command(self.path());
        command.args(["--journal.segment_bytes=1MiB", "--journal.epoch_bytes=1MiB"]);
        command.args(UNHURRIED);
        if let Some(room) = &self.room {
            shim::load(&mut command, &self.path().join("data"));
            command.env("FAULT_ROOM", room).env("FAULT_SIZE", ROOM.to_string());
        }
        command
    }

    fn start(&self) -> Quotad {
        Quotad::try_start(self.path(), &mut self.command()).unwrap()
    }

    /// Leaves no room at all.
    fn fill(&self) {
        match &self.room {
            Some(_) => self.leave(0),
            None => {
                let mut filling = std::fs::File::create(self.path().join("filling")).unwrap();
                while filling.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
            }
        }
    }

    /// Leaves room for so many bytes more than there are now, or less, on a disk that is pretended.
    fn leave(&self, more: i64) {
        let room = bytes(&self.path().join("data")).saturating_add_signed(more);
        std::fs::write(self.room.as_ref().unwrap(), room.to_string()).unwrap();
    }

    fn empty(&self) {
        match &self.room {
            Some(room) => std::fs::write(room, ROOM.to_string()).unwrap(),
            None => std::fs::remove_file(self.path().join("filling")).unwrap(),
        }
    }
}

/// Bytes of all files below a directory.
fn bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => bytes(&entry.path()),
            about => about.map_or(0, |about| about.len()),
        })
        .sum()
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.room.is_none() {
            let _ = Command::new("umount").arg(self.path()).status();
        }
    }
}

fn reservation(uid: &str) -> Value {
    json!({
        "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
        "reserved": {UNITS: "1"}, "ttl": "9m"
    })
}

fn review(uid: &str) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": uid, "namespace": "team-a", "uid": uid}
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review", "operation": "CREATE", "namespace": "team-a", "name": uid,
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "userInfo": {"username": "somebody"}, "object": object
        }
    })
}

fn event(uid: &str) -> Value {
    json!({
        "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com", "name": uid, "uid": uid,
        "usage": {UNITS: "1"}
    })
}

#[tokio::main(flavor = "current_thread")]
async fn publish(url: &str, uid: &str) {
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let sent = context.publish("quota.objects.made", event(uid).to_string().into());
    sent.await.unwrap().await.unwrap();
}

#[test]
fn a_low_disk_stops_grants_and_events_and_nothing_else() {
    let disk = Disk::pretended();
    let server = Server::start();
    let mut command = disk.command();
    let nats = server.url();
    command.args([&format!("--nats.url={nats}"), "--nats.poll_interval=50ms"]);
    let daemon = Quotad::try_start(disk.path(), &mut command).unwrap();
    wait_until("it gets ready", || daemon.is_ready());
    let mut told = Told::default();
    let steps = [
        Step::Quota("all".to_owned(), 100),
        Step::Reserve("held".to_owned()),
        Step::Reserve("given-back".to_owned()),
        Step::Reserve("made".to_owned()),
    ];
    assert!(ask(&daemon, &steps, &mut told, |_| {}));
    let manifest = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "maps", "namespace": "team-a"},
        "spec": {"hard": {"count/configmaps": "5"}}
    });
    let maps = format!("{NAMESPACE}/quotas/maps");
    assert_eq!(daemon.put(&maps, &manifest).0, 201);

    disk.leave(1024 * 1024);
    wait_until("it says that it is not ready", || !daemon.is_ready());
    let (_, readyz) = daemon.ask_admin("/readyz?verbose");
    assert!(readyz.contains("[-]disk"), "{readyz}");
    assert!(readyz.contains("the disk is low"), "{readyz}");
    let (_, metrics) = daemon.ask_admin("/metrics");
    assert!(metrics.contains("\nquota_ledger_disk_low 1\n"), "{metrics}");
    for (path, body) in [
        ("/v1/namespaces/team-a/reservations", reservation("more")),
        ("/v1/events", event("more")),
        ("/admit", review("more")),
    ] {
        let (status, answer) = daemon.post(path, &body);
        assert_eq!((status, &answer["reason"]), (503, &json!("DiskLow")), "{path}: {answer}");
    }
    assert_eq!(daemon.put(&maps, &manifest).0, 503);
    // What stands goes on.
    let steps = [
        Step::Extend("held".to_owned()),
        Step::Release("given-back".to_owned()),
        Step::Commit("made".to_owned()),
    ];
    assert!(ask(&daemon, &steps, &mut told, |_| {}));
    assert_eq!(daemon.call("DELETE", &maps, &[], &Value::Null).0, 204);
    let (status, fits) = daemon.post(&format!("{NAMESPACE}/check"), &reservation("more"));
    assert_eq!((status, &fits["fits"]), (200, &json!(true)), "{fits}");
    // Events wait in the stream, and answers say so.
    publish(&nats, "waiting");
    wait_until("answers say that it lags", || {
        daemon.get("/v1/namespaces/team-a/usage")["lagging"] == true
    });
    let has = |uid: &str| {
        let (objects, _) = daemon.list("/v1/namespaces/team-a/objects");
        objects.iter().any(|object| object["uid"] == uid)
    };
    assert!(!has("waiting"));

    disk.empty();
    wait_until("it is ready again", || daemon.is_ready());
    wait_until("the event is taken in", || has("waiting"));
    let steps = [Step::Reserve("more".to_owned())];
    assert!(ask(&daemon, &steps, &mut told, |_| {}));
    assert_eq!(missing(&daemon, &told, None), Vec::<String>::new());
    assert_eq!(daemon.stop().code(), Some(0));
    verify(disk.path()).unwrap();
}

#[test]
fn a_full_disk_ends_it_and_the_ballast_lets_it_open_again() {
    let mut disks = vec![Disk::pretended()];
    disks.extend(Disk::mounted());
    for disk in disks {
        fill_up(&disk);
    }
}

fn fill_up(disk: &Disk) {
    let daemon = disk.start();
    wait_until("it gets ready", || daemon.is_ready());
    let mut told = Told::default();
    let steps = [
        Step::Quota("all".to_owned(), 100),
        Step::Reserve("held".to_owned()),
        Step::Objects(vec!["seen".to_owned()]),
        Step::Fill(20),
    ];
    assert!(ask(&daemon, &steps, &mut told, |_| {}));
    let ballast = disk.path().join("data/ballast");
    wait_until("there is ballast", || ballast.exists());

    // What goes on below the mark fills the segment, and then there is none to be had.
    disk.fill();
    let mut extended = 0;
    while ask(&daemon, &[Step::Extend("held".to_owned())], &mut told, |_| {}) {
        extended += 1;
        assert!(extended < 100_000, "the disk is not full");
    }
    assert_eq!(daemon.wait().code(), Some(5));

    if disk.room.is_some() {
        // Not even for a line in the lock file, unless something goes.
        disk.leave(-64 * 1024);
    }
    let daemon = disk.start();
    assert!(disk.room.is_none() || !ballast.exists());
    assert_eq!(missing(&daemon, &told, None), Vec::<String>::new());
    wait_until("it says that it is not ready", || !daemon.is_ready());
    let (status, answer) = daemon.post(&format!("{NAMESPACE}/reservations"), &reservation("more"));
    assert_eq!((status, &answer["reason"]), (503, &json!("DiskLow")), "{answer}");

    disk.empty();
    wait_until("it is ready again", || daemon.is_ready());
    let steps = [Step::Reserve("more".to_owned())];
    assert!(ask(&daemon, &steps, &mut told, |_| {}));
    wait_until("there is ballast again", || ballast.exists());
    assert_eq!(missing(&daemon, &told, None), Vec::<String>::new());
    assert_eq!(daemon.stop().code(), Some(0));
    verify(disk.path()).unwrap();
}
