//! In which forms lists are printed, with the real daemon; and what is printed when they change.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use super::{
    command,
    daemon::Daemon,
    support::{PATIENCE, programs},
};

fn quota(name: &str, team: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ResourceQuota\n\
         metadata: {{name: {name}, namespace: team-a, labels: {{team: {team}, example.com/tier: gold}}}}\n\
         spec: {{hard: {{requests.cpu: \"{cpu}\", pods: \"9\"}}}}\n---\n"
    )
}

/// Three quotas, whose order by name is another one than by their limits.
fn three() -> Daemon {
    let daemon = Daemon::start();
    let quotas = quota("a", "red", "10") + &quota("b", "blue", "500m") + &quota("c", "red", "2");
    daemon.done("apply -f -", &quotas);
    daemon
}

#[test]
fn amounts_are_sorted_as_amounts() {
    let daemon = three();
    let sorted = daemon.done(r"get quota -n team-a -o name --sort-by .spec.hard.requests\.cpu", "");
    assert_eq!(sorted, "resourcequota/b\nresourcequota/c\nresourcequota/a\n");
    let absent = daemon.run("get quota -n team-a --sort-by .absent", "");
    assert!(absent.code == 2 && absent.err.contains("no item has this field"), "{absent:?}");
    for gone in ["jsonpath={.a}", "custom-columns=A:.a", "xml"] {
        assert_eq!(daemon.run(&format!("get quota -o {gone}"), "").code, 2);
    }
}

#[test]
fn labels_select_quotas() {
    let daemon = three();
    let names = |selector: &str| {
        let run = command("get quota -n team-a -o name -l")
            .arg(selector)
            .args(["--server", &daemon.url])
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(0), "{selector}: {run:?}");
        let out = String::from_utf8(run.stdout).unwrap();
        out.replace("resourcequota/", "").replace('\n', "")
    };
    assert_eq!(names("team=red"), "ac");
    assert_eq!(names("team!=red"), "b");
    assert_eq!(names("team in (blue, green),example.com/tier"), "b");
    assert_eq!(names("!team"), "");
    assert_eq!(daemon.rows("get quota -A -l team=blue").len(), 2);
    let wrong = daemon.run("get quota -l team(", "");
    assert!(wrong.code == 1 && wrong.err.contains("team("), "{wrong:?}");
    assert_eq!(daemon.run("get quota a -l team=red", "").code, 2);
}

#[test]
fn usage_is_in_one_unit_with_the_fullest_limit_first() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", &quota("a", "red", "2"));
    let events = r#"{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"w","uid":"w1","usage":{"requests.cpu":"1500m"}}"#;
    daemon.done("push -", events);
    let rows = daemon.rows("get usage -n team-a");
    assert_eq!(rows[1], ["a", "requests.cpu", "2", "1.5", "0", "0.5", "75%"]);
    assert_eq!(rows[2][..2], ["a", "pods"]);
    assert_eq!(rows.len(), 3);
    let all = daemon.rows("get usage -n team-a --all");
    assert!(all.iter().any(|row| row[1] == "count/widgets.example.com"), "{all:?}");
    daemon.done("reserve --uid u1 --request pods=1 -n unlimited", "");
    let named = |out: String| out.contains("unlimited");
    assert!(!named(daemon.done("top", "")) && named(daemon.done("top --all", "")));
}

/// What `quotactl` prints to a terminal of so many columns.
fn in_terminal(url: &str, columns: u16, arguments: &str, no_color: bool) -> String {
    let program = programs::quotactl();
    let line = format!("stty cols {columns}; {} {arguments} --server {url}", program.display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    script.env("TERM", "xterm").env_remove("NO_COLOR");
    if no_color {
        script.env("NO_COLOR", "1");
    }
    let output = script.output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn tables_fit_the_terminal_and_have_colours_there() {
    let daemon = Daemon::start();
    let hard =
        "requests.cpu: 4, requests.memory: 8Gi, limits.cpu: 8, pods: 1, services: 5, secrets: 7";
    let manifest = quota("compute", "red", "4").replace("requests.cpu: \"4\", pods: \"9\"", hard);
    daemon.done("apply -f -", &manifest);
    daemon.done("reserve --uid u1 --request pods=1 -n team-a", "");

    let wide = daemon.done("get quota -n team-a", "");
    assert!(wide.lines().all(|line| !line.contains('\u{1b}')) && wide.lines().count() == 2);
    assert!(wide.lines().any(|line| line.len() > 80), "{wide}");
    // A line is longer than the terminal rather than broken.
    let narrow = in_terminal(&daemon.url, 80, "get quota -n team-a", true);
    assert_eq!(narrow.lines().count(), 2, "{narrow}");
    assert!(narrow.contains("requests.memory: 0/8Gi"), "{narrow}");

    let red = "\u{1b}[38;5;9m100%";
    let usage = "get usage -n team-a";
    assert!(in_terminal(&daemon.url, 120, usage, false).contains(red));
    assert!(!in_terminal(&daemon.url, 120, usage, true).contains('\u{1b}'));
    let never = format!("{usage} --color never");
    assert!(!in_terminal(&daemon.url, 120, &never, false).contains('\u{1b}'));
    assert!(daemon.done(&format!("{usage} --color always"), "").contains(red));
}

#[test]
fn tables_of_a_real_cluster_are_never_broken() {
    let daemon = Daemon::start();
    let history =
        format!("push {}/tests/vectors/history-a.events.jsonl", env!("CARGO_MANIFEST_DIR"));
    daemon.done(&history, "");
    daemon.done(
        "reserve --kind Pod --name web-1 --uid u1 --request pods=1,requests.cpu=500m -n team-web",
        "",
    );
    let denied = "reserve --kind Pod --name web-2 --uid u2 --request pods=100 -n team-web";
    assert_eq!(daemon.run(denied, "").code, 10);
    for command in [
        "get quota -A",
        "get usage -A",
        "get usage -n team-data",
        "get reservations -A -o wide",
        "get objects -n team-data",
        "get entries --tail 50",
        "top",
        "history -n team-web",
        "denials",
        "denials -o wide",
        "describe namespace team-web",
        "explain pods -n team-gpu",
    ] {
        let whole = daemon.done(command, "");
        for columns in [200, 80, 40] {
            let shown = in_terminal(&daemon.url, columns, command, true);
            let lines = |text: &str| text.lines().filter(|line| !line.contains(" of ")).count();
            assert_eq!(lines(&shown), lines(&whole), "{command} in {columns}: {shown}");
            // The first cell of each row is whole, but for ages.
            let shown_rows = shown.lines().filter(|line| !line.contains(" of "));
            let rows = whole.lines().filter(|line| !line.contains(" of "));
            for (line, whole) in shown_rows.zip(rows) {
                // An age may differ.
                let is_age = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
                let first = |line: &str| {
                    line.split_whitespace().find(|word| !is_age(word)).unwrap_or("").to_owned()
                };
                assert_eq!(first(line), first(whole), "{command} in {columns}: {shown}");
            }
        }
    }
    // Columns are left out, and are there with -o wide.
    let narrow = in_terminal(&daemon.url, 60, "get usage -n team-web", true);
    assert!(!narrow.contains("RESERVED") && narrow.contains("AVAILABLE"), "{narrow}");
    let wide = in_terminal(&daemon.url, 60, "get usage -n team-web -o wide", true);
    assert!(wide.contains("RESERVED"), "{wide}");
    // Memory in one suffix, never in bytes.
    let usage = daemon.done("get usage -n team-web", "");
    assert!(!usage.contains("29064771072") && usage.contains("~27.069Gi"), "{usage}");
}

/// A command that goes on, and the lines that it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(daemon: &Daemon, arguments: &str) -> Self {
        let mut child = command(arguments)
            .args(["--server", &daemon.url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in out.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    fn words(&self) -> Vec<String> {
        self.line().split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_changes_is_printed_when_it_changes() {
    let daemon = three();
    let quotas = Watching::start(&daemon, "get quota -n team-a --watch");
    let reservations = Watching::start(&daemon, "get reservations -A -w -o name");
    let usage = Watching::start(&daemon, "get usage -n team-a -w");
    let heading = quotas.line();
    assert!(heading.starts_with("NAME   REQUEST"), "{heading}");
    let before: Vec<_> = (0..3).map(|_| quotas.line()).collect();
    assert_eq!(usage.words()[0], "QUOTA");
    for _ in 0..6 {
        usage.line();
    }

    daemon.done("apply -f -", &quota("b", "blue", "1"));
    let changed = quotas.line();
    assert!(changed.starts_with("b ") && changed.contains("requests.cpu: 0/1"), "{changed}");
    // Under the same columns as before.
    assert_eq!(changed.find("requests.cpu"), before[1].find("requests.cpu"));
    // The limit binds the others, too.
    for (name, hard) in [("a", "10"), ("b", "1"), ("c", "2")] {
        assert_eq!(usage.words()[..3], [name, "requests.cpu", hard]);
    }

    daemon.done("reserve --uid u1 --request pods=1 -n team-a", "");
    let changed: Vec<_> = (0..3).map(|_| quotas.words()[0].clone()).collect();
    assert_eq!(changed, ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        assert_eq!(usage.words()[..5], [name, "pods", "9", "0", "1"]);
    }
    assert_eq!(reservations.line(), "reservation/u1");
    daemon.done("release u1 -n team-a", "");
    // Once more: it has ended.
    assert_eq!(reservations.line(), "reservation/u1");
    let past = daemon.run("get usage --sequence 1 -w", "");
    assert_eq!(past.code, 2, "{past:?}");
}

#[test]
fn groups_are_chosen_sorted_and_watched() {
    let daemon = Daemon::start();
    let group = |name: &str, tier: &str, pods: u32| {
        format!(
            "apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\n\
             metadata: {{name: {name}, labels: {{tier: {tier}}}}}\n\
             spec: {{selector: {{labels: {{matchLabels: {{team: {name}}}}}}}, quota: {{hard: {{pods: {pods}}}}}}}\n---\n"
        )
    };
    let all = group("a", "gold", 9) + &group("b", "tin", 10) + &group("c", "gold", 2);
    daemon.done("apply -f -", &all);
    let names = |arguments: &str| daemon.done(&format!("get groups -o name {arguments}"), "");
    let (a, b, c) =
        ("clusterresourcequota/a\n", "clusterresourcequota/b\n", "clusterresourcequota/c\n");
    assert_eq!(names("-l tier=gold"), [a, c].concat());
    assert_eq!(names("-l tier!=gold"), b);
    assert_eq!(names("--sort-by .hard.pods"), [c, a, b].concat());
    assert_eq!(daemon.run("get groups -l tier==", "").code, 0);
    assert_eq!(daemon.run("get groups -l =gold", "").code, 1);

    // A member of another namespace than that of the command line.
    let watching = Watching::start(&daemon, "get groups -l tier=gold -w --no-headers");
    assert_eq!([&watching.words()[0], &watching.words()[0]], ["a", "c"]);
    let member = r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Namespace","metadata":{
        "name":"far","uid":"n1","resourceVersion":"1","labels":{"team":"c"}}}}"#;
    daemon.done("push -", &member.replace('\n', ""));
    assert_eq!(watching.words()[..3], ["c", "<none>", "1"]);
}

#[test]
fn a_reservation_that_ends_is_shown_with_its_end() {
    let daemon = three();
    daemon.done("reserve --uid u1 --request pods=1 -n team-a", "");
    let pending = Watching::start(&daemon, "get reservations -n team-a -w --no-headers");
    assert_eq!(pending.words()[3], "pending");
    daemon.done("commit u1 -n team-a", "");
    assert_eq!(pending.words()[3], "committed");
    let entries = Watching::start(&daemon, "get entries --tail 1 -w -o name");
    let last = entries.line();
    daemon.done("release u1 -n team-a", "");
    let next: u64 = last.trim_start_matches("entry/").parse::<u64>().unwrap() + 1;
    assert_eq!(entries.line(), format!("entry/{next}"));
}
