//! get --watch, wait.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::server::{Kubectl, Server};

#[test]
fn a_watch_shows_every_figure_as_it_changes() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        kubectl.prints(&["create", "quota", "rq", "-n", "wire", "--hard=pods=10"]);
        let mut child = kubectl
            .command(&["get", "quota", "-n", "wire", "-w"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut expect = |begin: &str, has: &str| {
            let line = lines.next().unwrap();
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                line.starts_with(begin) && line.contains(has),
                "1.{}: {line:?}: {has}",
                kubectl.minor
            );
        };
        expect("NAME ", "RESERVED");
        expect("rq ", "pods: 0/10");
        server.reserve("wire", "p", &[("pods", "1")]);
        expect("rq ", "pods: 0/10 pods: 1");
        server.observe("wire", "p2", &[("pods", "3")]);
        expect("rq ", "pods: 3/10");
        kubectl.prints(&[
            "patch",
            "quota",
            "rq",
            "-n",
            "wire",
            "-p",
            r#"{"spec":{"hard":{"pods":"20"}}}"#,
        ]);
        expect("rq ", "pods: 3/20");
        kubectl.prints(&["create", "quota", "other", "-n", "elsewhere", "--hard=pods=1"]);
        kubectl.prints(&["create", "quota", "second", "-n", "wire", "--hard=services=1"]);
        expect("second ", "services: 0/1");
        kubectl.prints(&["delete", "quota", "second", "-n", "wire"]);
        expect("second ", "services: 0/1");
        child.kill().unwrap();
        child.wait().unwrap();
        server.delete("wire", "p");
        server.delete("wire", "p2");
        kubectl.prints(&["delete", "quota", "rq", "-n", "wire"]);
        kubectl.prints(&["delete", "quota", "other", "-n", "elsewhere"]);
    }
}

#[test]
fn one_quota_or_all_can_be_watched() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        kubectl.prints(&["create", "quota", "one", "-n", "wire", "--hard=pods=1"]);
        kubectl.prints(&["create", "quota", "two", "-n", "wire", "--hard=pods=2"]);
        let watch = |more: &[&str]| {
            let arguments = [&["get", "quota", "-w"], more].concat();
            kubectl.command(&arguments).stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut children = [watch(&["one", "-n", "wire"]), watch(&["-A", "--no-headers"])];
        let mut lines = children.each_mut().map(|child| {
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            lines.map(|line| line.unwrap().split_whitespace().collect::<Vec<_>>().join(" "))
        });
        let [one, all] = &mut lines;
        let starts = |line: Option<String>, begin: &str| {
            let line = line.unwrap();
            assert!(line.starts_with(begin), "1.{}: {line:?}: {begin}", kubectl.minor);
        };
        starts(one.next(), "NAME REQUEST");
        starts(one.next(), "one pods: 0/1");
        starts(all.next(), "wire one pods: 0/1");
        starts(all.next(), "wire two pods: 0/2");
        for (name, pods) in [("two", "22"), ("one", "11")] {
            let patch = format!(r#"{{"spec":{{"hard":{{"pods":"{pods}"}}}}}}"#);
            kubectl.prints(&["patch", "quota", name, "-n", "wire", "-p", &patch]);
        }
        starts(one.next(), "one pods: 0/11");
        starts(all.next(), "wire two pods: 0/22");
        starts(all.next(), "wire one pods: 0/11");
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        kubectl.prints(&["delete", "quota", "-n", "wire", "--all"]);
    }
}

#[test]
fn wait_ends_when_the_condition_is_met() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        kubectl.prints(&["create", "quota", "rq", "-n", "wire", "--hard=pods=10"]);
        if kubectl.minor >= 23 {
            let wait = [
                "wait",
                "--for=jsonpath={.status.used.pods}=2",
                "quota/rq",
                "-n",
                "wire",
                "--timeout=60s",
            ];
            let waiting = kubectl.command(&wait).stdout(Stdio::piped()).spawn().unwrap();
            let name = format!("p{}", kubectl.minor);
            server.observe("wire", &name, &[("pods", "2")]);
            let waited = waiting.wait_with_output().unwrap();
            assert_eq!(
                String::from_utf8(waited.stdout).unwrap(),
                "resourcequota/rq condition met\n"
            );
            server.delete("wire", &name);
        }
        let wait = ["wait", "--for=delete", "quota/rq", "-n", "wire", "--timeout=60s"];
        let waiting = kubectl.command(&wait).stdout(Stdio::piped()).spawn().unwrap();
        kubectl.prints(&["delete", "quota", "rq", "-n", "wire"]);
        let waited = waiting.wait_with_output().unwrap();
        // It may be gone before the first look.
        assert!(waited.status.success() || kubectl.minor < 24, "1.{}: {waited:?}", kubectl.minor);
    }
}
