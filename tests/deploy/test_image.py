"""The image: made of static programs only, the same each time, and what it says it is.

With IMAGE, the directory of the one that `make image` has made, its own programs are started as well, from its root and
nothing else; that needs root.
"""

import gzip
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
import unittest
import urllib.request
from pathlib import Path

from support import DEPLOY, PROGRAMS, Rendered
from test_running import PATIENCE, free_ports, until

BUILD = DEPLOY / "image/build"
NAMES = ("quotad", "quotactl", "quota-bridge")
# Stands in for a program that takes minutes to be built static.
SOURCE = '#include <stdio.h>\nint main(void) { return puts("%s") < 0; }\n'


def build(out, programs, **options):
    return subprocess.run([BUILD, out, *programs], capture_output=True, text=True, **options)


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.work = Path(cls.directory.name)
        cls.programs = [cls.work / name for name in NAMES]
        for path in cls.programs:
            command = ["cc", "-static", "-x", "c", "-", "-o", path]
            subprocess.run(command, input=SOURCE % path.name, text=True, check=True)
        done = build(cls.work / "image", cls.programs)
        assert done.returncode == 0, done.stderr
        cls.digest = done.stdout.strip()

    def blob(self, descriptor, layout="image"):
        content = (self.work / layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
        self.assertEqual("sha256:" + hashlib.sha256(content).hexdigest(), descriptor["digest"])
        self.assertEqual(len(content), descriptor["size"])
        return content

    def read(self):
        """Manifest, configuration and files, each checked against what names it."""
        layout = json.loads((self.work / "image/oci-layout").read_text())
        self.assertEqual(layout, {"imageLayoutVersion": "1.0.0"})
        (named,) = json.loads((self.work / "image/index.json").read_text())["manifests"]
        self.assertEqual(named["digest"], self.digest)
        manifest = json.loads(self.blob(named))
        config = json.loads(self.blob(manifest["config"]))
        (layer,) = manifest["layers"]
        tar = gzip.decompress(self.blob(layer))
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(tar).hexdigest()])
        root = self.work / "root"
        root.mkdir(exist_ok=True)
        (self.work / "layer.tar").write_bytes(tar)
        with tarfile.open(self.work / "layer.tar") as opened:
            members = {member.name: member for member in opened}
            opened.extractall(root, filter="fully_trusted" if os.getuid() == 0 else "data")
        return config, members, root

    def test_the_same_programs_make_the_same_digest(self):
        copies = self.work / "elsewhere"
        copies.mkdir()
        again = []
        for path in reversed(self.programs[1:]):
            copy = copies / path.name
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o500)
            os.utime(copy, (1, 1))
            again.append(copy)
        done = build(self.work / "again", [self.programs[0], *again], umask=0o077, cwd=copies, env={"TZ": "Asia/Tokyo", "PATH": os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stdout.strip()), (0, self.digest), done.stderr)
        changed = copies / "changed" / NAMES[2]
        changed.parent.mkdir()
        changed.write_bytes(self.programs[2].read_bytes() + b"\0")
        changed = build(self.work / "changed", [*self.programs[:2], changed])
        self.assertNotEqual(changed.stdout.strip(), self.digest)

    def test_it_holds_the_programs_and_nothing_else(self):
        config, members, root = self.read()
        self.assertEqual(set(members), {"data", "etc", "etc/group", "etc/passwd", *NAMES})
        for name in NAMES:
            self.assertEqual((root / name).read_bytes(), (self.work / name).read_bytes())
            self.assertEqual((members[name].mode, members[name].uid), (0o755, 0))
            done = subprocess.run([root / name], capture_output=True, text=True)
            self.assertEqual(done.stdout, f"{name}\n")
        self.assertEqual((members["data"].uid, members["data"].mode), (65532, 0o700))
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertEqual(config["config"]["Cmd"], ["/quotad"])
        self.assertEqual(config["os"], "linux")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        self.assertEqual(config["architecture"], machine)

    def test_another_program_unpacks_it(self):
        # umoci of Debian checks each blob against its digest, and knows what runtimes read.
        unpacked = self.work / "unpacked"
        as_user = [] if os.getuid() == 0 else ["--rootless"]
        subprocess.run(
            ["umoci", "unpack", *as_user, "--image", f"{self.work / 'image'}:{self.tag()}", unpacked],
            check=True, capture_output=True, text=True,
        )
        _, members, _ = self.read()
        found = {str(path.relative_to(unpacked / "rootfs")) for path in (unpacked / "rootfs").rglob("*")}
        self.assertEqual(found, set(members))
        process = json.loads((unpacked / "config.json").read_text())["process"]
        self.assertEqual((process["user"]["uid"], process["user"]["gid"], process["args"]), (65532, 65532, ["/quotad"]))

    def tag(self):
        (named,) = json.loads((self.work / "image/index.json").read_text())["manifests"]
        return named["annotations"]["org.opencontainers.image.ref.name"]

    def test_it_holds_what_the_chart_starts(self):
        _, members, _ = self.read()
        rendered = Rendered()
        for workload in rendered.workloads():
            pod = workload["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            self.assertIn(container["command"][0].lstrip("/"), members)
            self.assertEqual(pod["securityContext"]["runAsUser"], members["data"].uid)

    def test_what_could_not_run_is_refused(self):
        text = self.work / "text"
        text.write_text("#!/bin/sh\n")
        for programs, why in [
            ([PROGRAMS / "quotactl"], "is not static"),
            ([text], "is no 64-bit program"),
            ([self.programs[0], self.programs[0]], "same name"),
        ]:
            with self.subTest(why=why):
                out = self.work / "refused"
                done = build(out, programs)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr)
                self.assertFalse(out.exists())
        self.assertIn("exists already", build(self.work / "image", self.programs).stderr)


# A read-only root as a container runtime makes it, with /data alone to write to, and a user without rights.
CONTAINER = """
root=$1; data=$2; shift 2
mount --bind "$root" "$root"
# As every runtime does.
mkdir -p "$root/dev"
for device in null zero random urandom; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
echo "127.0.0.1 quotad.example" >"$root/etc/hosts"
mount --bind "$data" "$root/data"
mount -o remount,bind,ro "$root"
exec chroot --userspec=65532:65532 "$root" "$@"
"""


@unittest.skipUnless(os.environ.get("IMAGE") and os.getuid() == 0, "IMAGE names no image that was made, or this is not root")
class Started(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root, self.data = (Path(directory.name) / name for name in ("root", "data"))
        for path in (self.root, self.data):
            path.mkdir()
        self.data.chmod(0o700)
        os.chown(self.data, 65532, 65532)
        image = Path(os.environ["IMAGE"])
        blob = lambda descriptor: image / "blobs" / descriptor["digest"].replace(":", "/")
        (named,) = json.loads((image / "index.json").read_text())["manifests"]
        manifest = json.loads(blob(named).read_text())
        for layer in manifest["layers"]:
            with tarfile.open(blob(layer)) as opened:
                opened.extractall(self.root, filter="fully_trusted")

    def command(self, *program):
        return ["unshare", "--mount", "sh", "-ec", CONTAINER, "sh", self.root, self.data, *program]

    def start(self, *program):
        process = subprocess.Popen(self.command(*program), env={}, stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_to_end(self, *program):
        return subprocess.run(self.command(*program), env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def test_its_programs_run_from_it_alone(self):
        ports = free_ports(("api", "admin", "bridge"))
        address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        quotad = self.start("/quotad", "--data-dir=/data/ledger", f"--listen={address['api']}", f"--admin.listen={address['admin']}",
                            "--http.allowed_hosts=quotad.example")
        status = lambda url: urllib.request.urlopen(url, timeout=PATIENCE).status
        until("quotad is ready", lambda: status(f"http://{address['admin']}/readyz") == 200)
        # Names are found without anything that the programs could load.
        for host in ("127.0.0.1", "quotad.example"):
            done = self.run_to_end("/quotactl", f"--server=http://{host}:{ports['api']}", "status")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.start("/quota-bridge", "--api=http://127.0.0.1:9", "--nats.url=nats://127.0.0.1:9", f"--admin.listen={address['bridge']}")
        until("the bridge is live", lambda: status(f"http://{address['bridge']}/livez") == 200)
        quotad.terminate()
        self.assertEqual(quotad.wait(PATIENCE), 0)
        done = self.run_to_end("/quotactl", "ledger", "verify", "--data-dir=/data/ledger")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.data / "ledger").exists())
