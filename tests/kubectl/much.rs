//! Much at once: lists and watches take it in portions, and merge what comes in quick succession.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    resume::watched,
    server::Server,
    wire::{QUOTAS, ask, create},
};

const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";
const NAMESPACES: &str = "/api/v1/namespaces";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn version(list: &Value) -> &str {
    list["metadata"]["resourceVersion"].as_str().unwrap()
}

#[test]
fn a_watch_tells_of_a_quota_few_times_a_second() {
    const CHANGES: usize = 200;
    let server = Server::start();
    create(&server, "q", json!({"spec": {"hard": {"pods": "1000"}}}));
    let list = ask(&server, "GET", QUOTAS, &[], "", 200);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let version = version(&list);
    let watch = format!("GET {QUOTAS}?watch=1&resourceVersion={version} HTTP/1.1");
    write!(stream, "{watch}\r\nhost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut events = lines.filter(|line| line.starts_with('{'));
    let began = Instant::now();
    for number in 0..CHANGES {
        server.observe("wire", &format!("p{number}"), &[("pods", "1")]);
    }
    let all = json!(CHANGES.to_string());
    let mut count = 0;
    loop {
        let event: Value = serde_json::from_str(&events.next().unwrap()).unwrap();
        count += 1;
        assert_eq!(event["type"], "MODIFIED");
        if event["object"]["status"]["used"]["pods"] == all {
            break;
        }
    }
    let most = 2 + began.elapsed().as_millis() / 250;
    assert!(count <= most, "{count} events in {:?}", began.elapsed());
}

#[test]
fn many_deletions_are_told_in_their_order() {
    const MANY: usize = 1200;
    let server = Server::start();
    let name = |number: usize| format!("q{number:04}");
    for number in 0..MANY {
        server.set_wide("wire", &name(number), 1);
    }
    let path = format!("{QUOTAS}?limit=1");
    let list = ask(&server, "GET", &path, &[], "", 200);
    let deleted = ask(&server, "DELETE", QUOTAS, &[], "", 200);
    assert_eq!(names(&deleted).len(), MANY);
    server.set_wide("wire", &name(7), 1);
    server.set_wide("wire", "brief", 1);
    let brief = format!("{QUOTAS}/brief");
    ask(&server, "DELETE", &brief, &[], "", 200);
    let query = format!("resourceVersion={}", version(&list));
    let events = watched(&server, &query, MANY + 1);
    for (number, event) in events[..MANY].iter().enumerate() {
        assert_eq!(event["type"], "DELETED", "{number}");
        assert_eq!(event["object"]["metadata"]["name"], name(number));
    }
    // What was made again comes behind its end, and what was made and deleted in between does not come.
    let last = &events[MANY];
    assert_eq!(last["type"], "ADDED");
    assert_eq!(last["object"]["metadata"]["name"], name(7));
}

#[test]
fn quotas_with_much_metadata_come_in_parts() {
    const MANY: usize = 72;
    let server = Server::start();
    let name = |number: usize| format!("q{number:02}");
    let note = json!({"metadata": {"annotations": {"note": "x".repeat(190_000)}}});
    for number in 0..MANY {
        create(&server, &name(number), note.clone());
    }
    let (mut all, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("{QUOTAS}?continue={after}");
        let page = ask(&server, "GET", &path, &[], "", 200);
        all.extend(names(&page).into_iter().map(str::to_owned));
        pages += 1;
        match page["metadata"]["continue"].as_str() {
            Some(more) => more.clone_into(&mut after),
            None => break,
        }
    }
    let expected: Vec<_> = (0..MANY).map(name).collect();
    assert_eq!(all, expected);
    assert_eq!(pages, 2);
    for event in watched(&server, "", MANY).iter().zip(&expected) {
        let (event, name) = event;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], **name);
    }
}

#[test]
fn many_namespaces_are_searched_in_portions() {
    const MANY: usize = 2300;
    let server = Server::start();
    let name = |number: usize| format!("n{number:04}");
    for number in 0..MANY {
        server.observe(&name(number), &format!("p{number}"), &[("pods", "1")]);
    }
    let all = ask(&server, "GET", NAMESPACES, &[], "", 200);
    let expected: Vec<_> = (0..MANY).map(name).collect();
    assert_eq!(names(&all), expected);
    let some = "labelSelector=kubernetes.io/metadata.name%20in%20(n0001,n1500,n2299)";
    let list = |query: &str| {
        let path = format!("{NAMESPACES}?{query}");
        ask(&server, "GET", &path, &[], "", 200)
    };
    let found = list(some);
    assert_eq!(names(&found), ["n0001", "n1500", "n2299"]);
    assert_eq!(found["metadata"].get("continue"), None);
    let found = list(&format!("{some}&limit=2"));
    assert_eq!(names(&found), ["n0001", "n1500"]);
    let after = found["metadata"]["continue"].as_str().unwrap();
    let found = list(&format!("{some}&limit=2&continue={after}"));
    assert_eq!(names(&found), ["n2299"]);

    // A group of all of them shows the first ones by name, to those who may read them.
    let group = json!({
        "metadata": {"name": "g"},
        "spec": {
            "selector": {"labels": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
            ]}},
            "quota": {"hard": {"pods": "5000", "services": "1"}},
        },
    });
    ask(&server, "POST", GROUPS, &[], &group.to_string(), 201);
    let applied = "/apis/quota.openshift.io/v1/namespaces/n0007/appliedclusterresourcequotas";
    let applied = ask(&server, "GET", applied, &[], "", 200);
    let status = &applied["items"][0]["status"];
    assert_eq!(status["total"]["used"]["pods"], MANY.to_string());
    let members = status["namespaces"].as_array().unwrap();
    let shown = members.iter().map(|member| &member["namespace"]);
    assert!(shown.eq(&expected[..1000]));
    let uses = |member: &Value| member["status"]["used"] == json!({"pods": "1", "services": "0"});
    assert!(members.iter().all(uses), "{}", members[0]);
}

#[test]
fn selectors_have_few_requirements() {
    let server = Server::start();
    let label = |number| format!("!l{number}");
    let labels = |count: usize| (0..count).map(label).collect::<Vec<_>>().join(",");
    let fields = |count: usize| vec!["metadata.name!=x"; count].join(",");
    let values = |count: usize| format!("a%20notin%20({})", vec!["x"; count].join(","));
    for path in [QUOTAS, NAMESPACES] {
        for (parameter, selector, what) in [
            ("labelSelector", &labels as &dyn Fn(usize) -> String, "requirements"),
            ("fieldSelector", &fields, "requirements"),
            ("labelSelector", &values, "values in sets"),
        ] {
            let most = if what == "requirements" { 100 } else { 1000 };
            let path = |count| format!("{path}?{parameter}={}", selector(count));
            ask(&server, "GET", &path(most), &[], "", 200);
            let refused = ask(&server, "GET", &path(most + 1), &[], "", 400);
            let count = most + 1;
            let expected = format!("{parameter} has {count} {what}: at most {most} are allowed");
            assert_eq!(refused["message"], expected);
        }
    }
}
