use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A container in plain numbers: cpu requested and limited, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Plain {
    request: Option<i64>,
    limit: Option<i64>,
    sidecar: bool,
}

fn plain() -> impl Strategy<Value = Plain> {
    let amount = || prop::option::of(0_i64..5_000);
    (amount(), amount(), any::<bool>()).prop_map(|(request, limit, sidecar)| Plain {
        request,
        limit,
        sidecar,
    })
}

fn plains(most: usize) -> impl Strategy<Value = Vec<Plain>> {
    prop::collection::vec(plain(), 0..=most)
}

fn pod(containers: &[Plain], init: &[Plain], overhead: Option<i64>) -> Pod {
    let amount = |milli: Option<i64>| milli.map(|milli| json!({ "cpu": format!("{milli}m") }));
    let write = |list: &[Plain]| -> Vec<serde_json::Value> {
        let write_one = |(at, container): (usize, &Plain)| {
            json!({
                "name": format!("c{at}"),
                "restartPolicy": container.sidecar.then_some("Always"),
                "resources": { "requests": amount(container.request), "limits": amount(container.limit) },
            })
        };
        list.iter().enumerate().map(write_one).collect()
    };
    let pod = json!({ "spec": {
        "containers": write(containers),
        "initContainers": write(init),
        "overhead": amount(overhead),
    }});
    serde_json::from_value(pod).unwrap()
}

/// The definition in Kubernetes' documentation, as literally as possible: the largest amount in use at any moment.
fn naive(containers: &[Plain], init: &[Plain], amount: fn(&Plain) -> Option<i64>) -> Option<i64> {
    let all = || containers.iter().chain(init);
    all().find_map(amount)?;
    let sidecars = |list: &[Plain]| -> i64 {
        list.iter().filter(|container| container.sidecar).filter_map(amount).sum()
    };
    let running = containers.iter().filter_map(amount).sum::<i64>() + sidecars(init);
    let starting = (0..init.len()).map(|at| sidecars(&init[..at]) + amount(&init[at]).unwrap_or(0));
    Some(starting.fold(running, i64::max))
}

fn counted(pod: &Pod, name: &str) -> Option<i64> {
    pod.resources(Timestamp::EPOCH).get(name).map(Quantity::milli_value)
}

proptest! {
    #[test]
    fn a_pod_counts_for_the_most_it_ever_uses(
        containers in plains(4),
        init in plains(4),
        overhead in prop::option::of(0_i64..500),
    ) {
        let requests = naive(&containers, &init, |container| container.request);
        let limits = naive(&containers, &init, |container| container.limit);
        let pod = pod(&containers, &init, overhead);
        let expected = match (requests, overhead) {
            (None, None) => None,
            (requests, overhead) => Some(requests.unwrap_or(0) + overhead.unwrap_or(0)),
        };
        prop_assert_eq!(counted(&pod, "requests.cpu"), expected);
        prop_assert_eq!(counted(&pod, "cpu"), expected);
        let widened = limits.map(|limit| if limit == 0 { 0 } else { limit + overhead.unwrap_or(0) });
        prop_assert_eq!(counted(&pod, "limits.cpu"), widened);
    }

    #[test]
    fn each_resource_counts_as_if_there_were_no_other(
        containers in prop::collection::vec((plain(), plain()), 0..4),
        init in prop::collection::vec((plain(), plain()), 0..4),
    ) {
        let of = |list: &[(Plain, Plain)], second: bool| -> Vec<Plain> {
            let one = |(cpu, memory): &(Plain, Plain)| Plain {
                sidecar: cpu.sidecar,
                ..if second { *memory } else { *cpu }
            };
            list.iter().map(one).collect()
        };
        let [cpu, memory] = [false, true].map(|second| pod(&of(&containers, second), &of(&init, second), None));
        let mut both = cpu.clone();
        let pairs = both.spec.containers.iter_mut().zip(&memory.spec.containers);
        let pairs = pairs.chain(both.spec.init_containers.iter_mut().zip(&memory.spec.init_containers));
        for (container, other) in pairs {
            let Requirements { requests, limits } = &mut container.resources;
            for (list, more) in [(requests, &other.resources.requests), (limits, &other.resources.limits)] {
                list.extend(more.iter().map(|(_, amount)| ("memory".into(), amount.clone())));
            }
        }
        for name in ["requests.cpu", "limits.cpu"] {
            prop_assert_eq!(counted(&both, name), counted(&cpu, name));
            prop_assert_eq!(counted(&both, &name.replace("cpu", "memory")), counted(&memory, name));
        }
    }

    #[test]
    fn a_condensed_pod_counts_the_same(
        containers in plains(4),
        init in plains(4),
        overhead in prop::option::of(0_i64..500),
        ended: bool,
    ) {
        let mut pod = pod(&containers, &init, overhead);
        if ended {
            pod.status.phase = "Failed".into();
        }
        let whole = pod.clone();
        prop_assert_eq!(pod.condense(0), 0);
        prop_assert_eq!(pod.resources(Timestamp::EPOCH), whole.resources(Timestamp::EPOCH));
        prop_assert_eq!(pod.traits(), whole.traits());
        prop_assert_eq!(pod.spec.containers.len(), 1);
    }

    #[test]
    fn one_more_container_never_makes_a_pod_smaller(
        containers in plains(3),
        init in plains(3),
        more in plain(),
    ) {
        let before = counted(&pod(&containers, &init, None), "cpu");
        let beside = [containers.as_slice(), std::slice::from_ref(&more)].concat();
        let first = [std::slice::from_ref(&more), init.as_slice()].concat();
        prop_assert!(counted(&pod(&beside, &init, None), "cpu") >= before);
        prop_assert!(counted(&pod(&containers, &first, None), "cpu") >= before);
    }

    #[test]
    fn defaults_fill_in_requests_and_then_nothing_more(containers in plains(3), init in plains(3)) {
        let mut once = pod(&containers, &init, None);
        once.set_api_defaults();
        let mut twice = once.clone();
        twice.set_api_defaults();
        prop_assert_eq!(once.resources(Timestamp::EPOCH), twice.resources(Timestamp::EPOCH));

        let filled: fn(&Plain) -> Option<i64> = |container| container.request.or(container.limit);
        prop_assert_eq!(counted(&once, "cpu"), naive(&containers, &init, filled));
        let silent = containers.iter().chain(&init).any(|container| filled(container).is_none());
        prop_assert_eq!(once.missing_requirements(&["requests.cpu"]).is_some(), silent);
    }

    #[test]
    fn while_a_container_is_resized_the_largest_amount_counts(
        requested in 0_i64..100,
        allotted in 0_i64..100,
        running in 0_i64..100,
        infeasible in any::<bool>(),
    ) {
        let cpu = |units: i64| json!({ "cpu": units.to_string() });
        let pod: Pod = serde_json::from_value(json!({
            "spec": { "containers": [{ "name": "c", "resources": { "requests": cpu(requested) } }] },
            "status": {
                "conditions": [{
                    "type": "PodResizePending",
                    "reason": if infeasible { "Infeasible" } else { "Deferred" },
                }],
                "containerStatuses": [{
                    "name": "c",
                    "allocatedResources": cpu(allotted),
                    "resources": { "requests": cpu(running) },
                }],
            },
        })).unwrap();
        let actual = allotted.max(running);
        let expected = if infeasible { actual } else { actual.max(requested) };
        prop_assert_eq!(counted(&pod, "cpu"), Some(expected * 1000));
    }
}

#[test]
fn of_more_resources_than_fit_a_condensed_pod_has_the_first_by_name() {
    let amounts = json!({"cpu": "1", "memory": "0", "b.c/zero": "0", "b.c/a": "1", "b.c/b": "0002", "hugepages-2Mi": "2Mi"});
    let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}});
    let of = |max_bytes| {
        let mut pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let left_out = pod.condense(max_bytes);
        let text = serde_json::to_string(&pod.spec.containers).unwrap();
        (left_out, text)
    };
    let limits = r#""limits":{"cpu":"1","memory":"0"}}}]"#;
    let begin = r#"[{"resources":{"requests":{"#;
    for (max_bytes, left_out, requests) in [
        (0, 3, r#""cpu":"1","memory":"0""#),
        (14, 2, r#""b.c/a":"1","cpu":"1","memory":"0""#),
        (
            1000,
            0,
            r#""b.c/a":"1","b.c/b":"2","b.c/zero":"0","cpu":"1","hugepages-2Mi":"2Mi","memory":"0""#,
        ),
    ] {
        let expected = (left_out, format!("{begin}{requests}}},{limits}"));
        assert_eq!(of(max_bytes), expected);
    }
}
