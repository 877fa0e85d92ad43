//! Properties of all trees.

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    hard: i64,
    guaranteed: ResourceList,
    load: Load,
}

#[derive(Clone, Debug)]
struct Tree(Vec<Node>);

impl Loads for Tree {
    type Id = usize;
    fn parent(&self, group: usize) -> Option<usize> {
        self.0[group].parent
    }
    fn guaranteed(&self, group: usize) -> &ResourceList {
        &self.0[group].guaranteed
    }
    fn load(&self, group: usize) -> &Load {
        &self.0[group].load
    }
}

impl LoadsMut for Tree {
    fn load_mut(&mut self, group: usize) -> &mut Load {
        &mut self.0[group].load
    }
}

fn pods(units: i64) -> ResourceList {
    [(Name::from("pods"), Quantity::from_units(units))].into_iter().collect()
}

fn units(list: &ResourceList) -> i64 {
    list.get("pods").map_or(0, Quantity::value)
}

impl Tree {
    /// The groups that count an object which these groups select, children first: parents have lower indexes.
    fn chain(&self, own: &[bool]) -> Vec<usize> {
        let mut counts: Vec<bool> =
            (0..self.0.len()).map(|place| own.get(place) == Some(&true)).collect();
        for place in (0..self.0.len()).rev() {
            if let (true, Some(parent)) = (counts[place], self.0[place].parent) {
                counts[parent] = true;
            }
        }
        let counting = (0..self.0.len()).rev();
        counting.filter(|&place| counts[place]).collect()
    }

    fn fits(&self, chain: &[usize], x: i64) -> bool {
        let free = free(self, chain);
        chain.iter().zip(&free).all(|(&group, free)| {
            let node = &self.0[group];
            x <= node.hard - node.load.total("pods").value() + units(free)
        })
    }

    fn count(&mut self, chain: &[usize], sum: Sum, x: i64, adds: bool) {
        for &group in chain {
            count(self, group, sum, &pods(x), adds);
        }
    }

    /// The amount set aside, by its definition.
    fn set_aside(&self, group: usize) -> i64 {
        let children = (0..self.0.len()).filter(|&child| self.0[child].parent == Some(group));
        let of_child = |child: usize| {
            let node = &self.0[child];
            let own = units(&node.load.used) + units(&node.load.reserved);
            units(&node.guaranteed).max(own + self.set_aside(child)) - own
        };
        children.map(of_child).sum()
    }

    /// Lowers guarantees that the children cannot have together.
    fn commit_within(mut self) -> Self {
        for place in (0..self.0.len()).rev() {
            let mut left = self.0[place].hard;
            for child in place + 1..self.0.len() {
                if self.0[child].parent == Some(place) {
                    let given = units(&self.0[child].guaranteed).min(left);
                    self.0[child].guaranteed = pods(given);
                    left -= given;
                }
            }
        }
        // From the root down: a lowered guarantee may be less than those of its children.
        for place in 0..self.0.len() {
            let mut left = match self.0[place].parent {
                None => self.0[place].hard,
                Some(_) => self.0[place].hard.min(units(&self.0[place].guaranteed)),
            };
            for child in place + 1..self.0.len() {
                if self.0[child].parent == Some(place) {
                    let given = units(&self.0[child].guaranteed).min(left);
                    self.0[child].guaranteed = pods(given);
                    left -= given;
                }
            }
        }
        for place in (0..self.0.len()).rev() {
            let aside = pods(self.set_aside(place));
            self.0[place].load.set_aside = aside;
        }
        self
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let node = (any::<u8>(), 0..40_i64, 0..20_i64, prop::bool::weighted(0.3));
    vec(node, 1..8).prop_map(|nodes| {
        let node = |(place, (above, hard, guaranteed, root)): (usize, (u8, i64, i64, bool))| Node {
            parent: (place > 0 && !root).then(|| usize::from(above) % place.max(1)),
            hard,
            guaranteed: pods(guaranteed.min(hard)),
            load: Load::default(),
        };
        Tree(nodes.into_iter().enumerate().map(node).collect()).commit_within()
    })
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, i64),
    /// A reserved amount becomes used.
    Observe(usize),
    GiveBack(usize),
    Relabel(usize, Vec<bool>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..4_usize, 1..9_i64).prop_map(|(namespace, x)| Step::Ask(namespace, x)),
        2 => (0..4_usize).prop_map(Step::Observe),
        2 => (0..4_usize).prop_map(Step::GiveBack),
        1 => (0..4_usize, vec(any::<bool>(), 8)).prop_map(|(namespace, own)| Step::Relabel(namespace, own)),
    ];
    vec(step, 1..60)
}

proptest! {
    #[test]
    fn never_over_hard_and_sums_are_a_recount_in_overlapping_trees(
        tree in trees(),
        selected in vec(vec(prop::bool::weighted(0.3), 8), 4),
        steps in steps(),
    ) {
        let (mut tree, mut selected) = (tree, selected);
        let (mut used, mut reserved) = ([0_i64; 4], [0_i64; 4]);
        for step in steps {
            match step {
                Step::Ask(namespace, x) => {
                    let chain = tree.chain(&selected[namespace]);
                    if tree.fits(&chain, x) {
                        tree.count(&chain, Sum::Reserved, x, true);
                        reserved[namespace] += x;
                        for &group in &chain {
                            let load = &tree.0[group].load;
                            prop_assert!(units(&load.used) + units(&load.reserved) <= tree.0[group].hard);
                        }
                    }
                }
                Step::Observe(namespace) => {
                    let chain = tree.chain(&selected[namespace]);
                    let x = std::mem::take(&mut reserved[namespace]);
                    tree.count(&chain, Sum::Reserved, x, false);
                    tree.count(&chain, Sum::Used, x, true);
                    used[namespace] += x;
                }
                Step::GiveBack(namespace) => {
                    let chain = tree.chain(&selected[namespace]);
                    tree.count(&chain, Sum::Used, used[namespace], false);
                    used[namespace] = 0;
                }
                Step::Relabel(namespace, own) => {
                    let [before, after] = [&selected[namespace], &own].map(|own| tree.chain(own));
                    for (chain, adds) in [(before, false), (after, true)] {
                        tree.count(&chain, Sum::Used, used[namespace], adds);
                        tree.count(&chain, Sum::Reserved, reserved[namespace], adds);
                    }
                    selected[namespace] = own;
                }
            }
            for group in 0..tree.0.len() {
                let members: Vec<usize> =
                    (0..4).filter(|&it| tree.chain(&selected[it]).contains(&group)).collect();
                let load = &tree.0[group].load;
                prop_assert_eq!(units(&load.used), members.iter().map(|&it| used[it]).sum::<i64>());
                prop_assert_eq!(units(&load.reserved), members.iter().map(|&it| reserved[it]).sum::<i64>());
                prop_assert_eq!(units(&load.set_aside), tree.set_aside(group));
            }
        }
    }

    #[test]
    fn what_is_guaranteed_is_never_refused(
        tree in trees(),
        asks in vec((0..8_usize, 1..9_i64, any::<bool>()), 1..60),
    ) {
        let mut tree = tree;
        for (group, x, back) in asks {
            // One namespace for each group, which no sibling selects.
            let group = group % tree.0.len();
            let own: Vec<bool> = (0..tree.0.len()).map(|place| place == group).collect();
            let chain = tree.chain(&own);
            let node = &tree.0[group];
            let within = x <= node.load.unused(&node.guaranteed, "pods").value();
            let fits = tree.fits(&chain, x);
            prop_assert!(fits || !within);
            if fits {
                tree.count(&chain, Sum::Used, x, true);
                if back {
                    tree.count(&chain, Sum::Used, x, false);
                }
            }
        }
    }
}
