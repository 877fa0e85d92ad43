//! What a process did to its disk, and what of it a power cut may leave: content that was not synced is there, or
//! not, or in part; names in a directory that was not synced are as they were at some time since.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

/// Smallest part of a write that reaches the disk or not.
const SECTOR_BYTES: usize = 512;

const O_TRUNC: u64 = 0o1000;

/// One record of the shim's tape.
pub(crate) struct Record {
    kind: u8,
    a: u64,
    b: u64,
    path: PathBuf,
    other: PathBuf,
    data: Vec<u8>,
}

/// A client got an answer: the record that the test appends to the tape between the daemon's records.
pub(crate) fn acknowledgement(number: usize) -> Vec<u8> {
    let mut bytes = vec![b'A'];
    bytes.extend((number as u64).to_le_bytes());
    bytes.extend([0; 20]);
    bytes
}

pub(crate) fn read(tape: &Path) -> Vec<Record> {
    let bytes = std::fs::read(tape).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at(length);
        rest = left;
        (taken.to_vec(), left.is_empty())
    };
    if bytes.is_empty() {
        return records;
    }
    loop {
        let (head, _) = take(29);
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let length = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
        let (path, _) = take(length(17));
        let (other, _) = take(length(21));
        let (data, is_last) = take(length(25));
        let path_of = |bytes| PathBuf::from(String::from_utf8(bytes).unwrap());
        records.push(Record {
            kind: head[0],
            a: long(1),
            b: long(9),
            path: path_of(path),
            other: path_of(other),
            data,
        });
        if is_last {
            return records;
        }
    }
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Copy)]
enum Node {
    File(usize),
    Directory,
}

#[derive(Clone)]
enum Naming {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Default)]
struct Directory {
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<Naming>,
}

/// A disk that records which bytes are durable.
#[derive(Default)]
pub(crate) struct Disk {
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Directory>,
    /// Names as the process sees them.
    now: BTreeMap<PathBuf, Node>,
    open: HashMap<u64, usize>,
    /// Syncs of files do nothing.
    lies: bool,
    /// The last acknowledgement.
    pub(crate) acknowledged: Option<usize>,
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(length) => content.resize(*length, 0),
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(data);
            }
        }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

impl Disk {
    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.now);
        let path = match &naming {
            Naming::Add(path, _) | Naming::Remove(path) | Naming::Rename(path, _) => path,
        };
        let directory = path.parent().unwrap().to_owned();
        let directory = self.directories.entry(directory).or_default();
        directory.pending.push(naming);
    }

    /// One that says that files are synced, and does nothing.
    pub(crate) fn lying() -> Self {
        Self { lies: true, ..Self::default() }
    }

    /// Does what a record says.
    pub(crate) fn play(&mut self, record: &Record) {
        let Record { a, b, path, .. } = record;
        match record.kind {
            b'A' => self.acknowledged = Some(usize::try_from(*a).unwrap()),
            b'o' => {
                let inode = match self.now.get(path) {
                    Some(Node::File(inode)) => *inode,
                    Some(Node::Directory) => panic!("{} is a directory", path.display()),
                    None => {
                        self.inodes.push(Inode::default());
                        let inode = self.inodes.len() - 1;
                        self.name(Naming::Add(path.clone(), Node::File(inode)));
                        inode
                    }
                };
                if b & O_TRUNC != 0 {
                    self.inodes[inode].pending.push(Change::Length(0));
                }
                self.open.insert(*a, inode);
            }
            b'w' => {
                let offset = usize::try_from(*b).unwrap();
                let inode = &mut self.inodes[self.open[a]];
                inode.pending.push(Change::Write(offset, record.data.clone()));
            }
            b't' => {
                let length = usize::try_from(*b).unwrap();
                self.inodes[self.open[a]].pending.push(Change::Length(length));
            }
            b's' if self.lies => {}
            b's' => {
                let Inode { durable, pending } = &mut self.inodes[self.open[a]];
                pending.drain(..).for_each(|change| change.apply(durable));
            }
            b'S' => {
                let Directory { durable, pending } =
                    self.directories.entry(path.clone()).or_default();
                pending.drain(..).for_each(|naming| naming.apply(durable));
            }
            b'm' => self.name(Naming::Add(path.clone(), Node::Directory)),
            b'u' | b'R' => self.name(Naming::Remove(path.clone())),
            b'r' => {
                assert_eq!(path.parent(), record.other.parent());
                self.name(Naming::Rename(path.clone(), record.other.clone()));
            }
            b'd' => {}
            kind => panic!("an unknown record {kind}"),
        }
    }

    /// Writes what is left of the directory `root` after a power cut to `to`; `random` says how much of what was
    /// not synced.
    pub(crate) fn cut(&self, root: &Path, to: &Path, random: &mut impl FnMut(usize) -> usize) {
        let Some(directory) = self.directories.get(root) else {
            return;
        };
        let mut names = directory.durable.clone();
        let kept = random(directory.pending.len() + 1);
        for naming in &directory.pending[..kept] {
            naming.apply(&mut names);
        }
        for (path, node) in names {
            let to = to.join(path.file_name().unwrap());
            match node {
                Node::File(inode) => {
                    std::fs::write(to, self.inodes[inode].left(random)).unwrap();
                }
                Node::Directory => {
                    std::fs::create_dir(&to).unwrap();
                    self.cut(&path, &to, random);
                }
            }
        }
    }
}

impl Inode {
    fn left(&self, random: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut content = self.durable.clone();
        match random(3) {
            // All up to some write, and a part of that.
            0 => {
                let kept = random(self.pending.len() + 1);
                for change in &self.pending[..kept] {
                    change.apply(&mut content);
                }
                if let Some(Change::Write(offset, data)) = self.pending.get(kept) {
                    let sectors = data.len().div_ceil(SECTOR_BYTES);
                    let end = (random(sectors + 1) * SECTOR_BYTES).min(data.len());
                    Change::Write(*offset, data[..end].to_vec()).apply(&mut content);
                }
            }
            // Any of them.
            1 => {
                for change in &self.pending {
                    if random(2) == 0 {
                        change.apply(&mut content);
                    }
                }
            }
            // Any of their sectors.
            _ => {
                for change in &self.pending {
                    let Change::Write(offset, data) = change else {
                        if random(2) == 0 {
                            change.apply(&mut content);
                        }
                        continue;
                    };
                    for (place, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if random(2) == 0 {
                            let offset = offset + place * SECTOR_BYTES;
                            Change::Write(offset, sector.to_vec()).apply(&mut content);
                        }
                    }
                }
            }
        }
        content
    }
}
