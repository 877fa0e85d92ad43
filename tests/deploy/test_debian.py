"""The Debian packages and the units in them: what is unpacked starts, as systemd would start it."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from support import DEPLOY, PROGRAMS

NAMES = ("quotad", "quotactl", "quota-bridge")
SERVICES = ("quotad", "quota-bridge")
PATIENCE = 60


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stripped(out):
    """The programs without what is for debuggers, as packages have them: lintian reads every byte of them."""
    out.mkdir()
    for name in NAMES:
        run("strip", "-o", out / name, PROGRAMS / name)
    return out


def build(programs, out, **options):
    # What is tested is not the compression.
    environment = {"PATH": os.environ["PATH"], "COMPRESSION": "none"} | options
    run(DEPLOY / "debian/build", programs, out, env=environment)
    return {path.name.split("_")[0]: path for path in out.iterdir()}


def unit(path):
    """The settings of a unit: each with all its values."""
    settings = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            settings.setdefault(key, []).append(value)
    return settings


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.work = Path(cls.directory.name)
        cls.programs = stripped(cls.work / "programs")
        cls.packages = build(cls.programs, cls.work / "packages")
        cls.root = cls.work / "root"
        for package in cls.packages.values():
            run("dpkg-deb", "--extract", package, cls.root)

    def unit_path(self, name):
        return self.root / "lib/systemd/system" / f"{name}.service"

    def field(self, name, field):
        return run("dpkg-deb", "--field", self.packages[name], field).strip()

    def test_there_is_one_for_each_program(self):
        self.assertEqual(set(self.packages), set(NAMES))
        for name in NAMES:
            self.assertEqual(self.field(name, "Package"), name)
            self.assertTrue(os.access(self.root / "usr/bin" / name, os.X_OK))
            self.assertTrue((self.root / "usr/share/doc" / name / "copyright").exists())
            # Static programs, as those of `make packages` are, need nothing.
            is_static = "INTERP" not in run("readelf", "--program-headers", self.programs / name)
            self.assertRegex(self.field(name, "Depends"), "^$" if is_static else r"libc6 \(>= 2\.\d+\)")

    def test_the_same_programs_make_the_same_packages(self):
        again = build(self.programs, self.work / "again")
        for name, package in self.packages.items():
            self.assertEqual(again[name].read_bytes(), package.read_bytes(), name)

    def test_what_is_configured_is_kept_and_what_is_secret_is_not_readable(self):
        for name, file in (("quotad", "config.toml"), ("quota-bridge", "bridge.toml")):
            control = self.work / f"control-{name}"
            run("dpkg-deb", "--control", self.packages[name], control)
            self.assertEqual((control / "conffiles").read_text(), f"/etc/{name}/{file}\n")
            secrets = self.root / "etc" / name / "secrets"
            self.assertEqual(secrets.stat().st_mode & 0o777, 0o700)
            for script in ("postinst", "prerm", "postrm"):
                run("sh", "-n", control / script)
                self.assertNotIn("@", (control / script).read_text())

    def test_debian_finds_nothing_to_complain_about(self):
        # The packages of a test are not compressed.
        of_tests = "uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball"
        for name, package in self.packages.items():
            done = subprocess.run(["lintian", "--allow-root", "--suppress-tags", of_tests, package], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.strip()), (0, ""), name)

    def test_the_manual_pages_say_what_the_programs_say(self):
        options = {"capture_output": True, "text": True, "env": {"PATH": os.environ["PATH"], "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}}

        def shown(page):
            done = subprocess.run(["man", "--warnings", "--local-file", page], **options)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            return done.stdout

        pages = {page.name: shown(page) for page in (self.root / "usr/share/man/man1").iterdir()}
        for command in ("", "-reserve", "-get-quota", "-ledger-verify"):
            self.assertIn(f"quotactl{command}.1.gz", pages)
        for line in run(self.root / "usr/bin/quotactl", "reserve", "--help").splitlines():
            for option in re.findall(r"--[a-z-]+", line):
                self.assertIn(option, pages["quotactl-reserve.1.gz"])
        for name in ("quotad", "quota-bridge"):
            page = shown(self.root / f"usr/share/man/man8/{name}.8.gz")
            said = run(self.root / "usr/bin" / name, "--help", env={"COLUMNS": "76"})
            for line in said.splitlines():
                self.assertIn(line.strip(), page)

    def test_an_upgrade_keeps_the_ledger_and_what_was_configured(self):
        root = self.work / "system"
        (root / "var/lib/dpkg/updates").mkdir(parents=True)
        (root / "var/lib/dpkg/info").mkdir()
        (root / "var/lib/dpkg/status").touch()
        later = build(self.programs, self.work / "later", VERSION="99.0.0")

        def dpkg(*arguments):
            chrootless = ["--force-script-chrootless", "--force-depends", "--force-confdef", "--force-confold", "--force-not-root"]
            environment = {"PATH": f"/usr/sbin:/sbin:{os.environ['PATH']}"}
            run("dpkg", f"--root={root}", "--log=/dev/null", *chrootless, *arguments, env=environment)

        def version():
            return run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Version}", "quotad")

        data = root / "var/lib/quotad/ledger"

        def quotas(*arguments):
            """Starts what is installed, and has the command line do something with it."""
            configuration = root / "etc/quotad/config.toml"
            command = [root / "usr/bin/quotad", f"--config={configuration}", "--admin.listen=127.0.0.1:0", "--listen=127.0.0.1:0", "--log.format=json"]
            daemon = subprocess.Popen(command, env={"QUOTAD_DATA_DIR": str(data)}, stderr=subprocess.PIPE, text=True, cwd="/")
            self.addCleanup(daemon.stderr.close)
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)
            ready = next(line for line in daemon.stderr if '"ready"' in line)
            api = re.search(r'"api":"([^"]+)"', ready)[1]
            said = run(root / "usr/bin/quotactl", f"--server=http://{api}", *arguments, env={})
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(PATIENCE), 0)
            return said

        dpkg("--install", self.packages["quotad"], self.packages["quotactl"])
        first = version()
        data.parent.mkdir(parents=True)
        configured = root / "etc/quotad/config.toml"
        with configured.open("a") as file:
            file.write("\n[shutdown]\ndrain = \"0s\"\n")
        before = configured.read_text()
        quota = self.work / "quota.yaml"
        quota.write_text("{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: a}, spec: {hard: {pods: 7}}}\n")
        quotas("apply", "-f", quota)
        dpkg("--install", later["quotad"], later["quotactl"])
        self.assertNotEqual(version(), first)
        self.assertEqual(configured.read_text(), before)
        self.assertIn('"pods": "7"', quotas("get", "quota", "-A", "-o", "json"))
        # And back: the format is the same.
        dpkg("--force-downgrade", "--install", self.packages["quotad"], self.packages["quotactl"])
        self.assertEqual(version(), first)
        self.assertIn('"pods": "7"', quotas("get", "quota", "-A", "-o", "json"))
        dpkg("--purge", "quotad")
        self.assertFalse(configured.exists())
        self.assertTrue((data / "LOCK").exists(), "what counts is not removed")

    def test_the_units_name_what_is_there(self):
        for name in SERVICES:
            settings = unit(self.unit_path(name))
            named = re.findall(r"(?<![\w.])/(?:usr|etc)/[\w./-]+", self.unit_path(name).read_text())
            self.assertIn(f"/usr/bin/{name}", named)
            for path in named:
                # /etc/NAME/secrets stands in a comment with a word behind it.
                self.assertTrue((self.root / path.rstrip(".,").lstrip("/")).exists(), path)
            (environment,) = settings["Environment"]
            if name == "quotad":
                self.assertTrue(environment.startswith(f"QUOTAD_DATA_DIR=/var/lib/{settings['StateDirectory'][0]}/"))

    def test_systemd_takes_the_units(self):
        for name in SERVICES:
            copy = self.work / f"{name}.service"
            text = self.unit_path(name).read_text()
            copy.write_text(text.replace("ExecStart=/", f"ExecStart={self.root}/"))
            done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
            about = [line for line in done.stderr.splitlines() if name in line]
            self.assertEqual(about, [])
            copy.write_text(text.replace("ProtectHome=", "ProtectHouse="))
            done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
            self.assertIn("ProtectHouse", done.stderr)

    def test_the_units_leave_little_to_attack(self):
        for name in SERVICES:
            run("systemd-analyze", "security", "--offline=true", "--threshold=20", self.unit_path(name))
            bare = self.work / "bare.service"
            bare.write_text("[Service]\nExecStart=/usr/bin/true\n")
            done = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", "--threshold=20", bare], capture_output=True
            )
            self.assertNotEqual(done.returncode, 0)

    def test_the_configurations_are_taken(self):
        for name, file in (("quotad", "config.toml"), ("quota-bridge", "bridge.toml")):
            for path in (self.root / "etc" / name / file, self.root / "usr/share/doc" / name / file):
                run(self.root / "usr/bin" / name, "check-config", "--config", path, env={})

    @contextlib.contextmanager
    def started(self, name, environment, *arguments):
        """A service that is started as its unit says: its process, and a function that waits until it has notified systemd.
        It is stopped in the end."""
        settings = unit(self.unit_path(name))
        self.assertEqual(settings["Type"], ["notify"])
        notify = self.work / f"notify-{name}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(str(notify))
            systemd.settimeout(PATIENCE)
            command = [part.replace("/usr", f"{self.root}/usr", 1).replace("=/etc", f"={self.root}/etc", 1) for part in shlex.split(settings["ExecStart"][0])]
            free = ["--admin.listen=127.0.0.1:0", "--log.format=json"]
            environment = {"NOTIFY_SOCKET": str(notify)} | environment
            with (self.work / f"log-{name}").open("w") as log:
                daemon = subprocess.Popen([*command, *free, *arguments], env=environment, stderr=log, cwd="/")
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)

            def notified(what):
                while what not in systemd.recv(4096).decode().splitlines():
                    pass

            notified("READY=1")
            yield (self.work / f"log-{name}").read_text()
            daemon.send_signal(signal.SIGTERM)
            notified("STOPPING=1")
            self.assertEqual(daemon.wait(PATIENCE), 0)

    def answer(self, log, path):
        admin = re.search(r'"admin":"([^"]+)"', log)[1]
        with urllib.request.urlopen(f"http://{admin}{path}", timeout=PATIENCE) as answer:
            return answer.status

    def test_quotad_starts_as_the_unit_says(self):
        variable, data = unit(self.unit_path("quotad"))["Environment"][0].split("=")
        with self.started("quotad", {variable: f"{self.root}{data}"}, "--listen=127.0.0.1:0") as log:
            self.assertEqual(self.answer(log, "/readyz"), 200)
            api = re.search(r'"api":"([^"]+)"', log)[1]
            quotas = run(self.root / "usr/bin/quotactl", f"--server=http://{api}", "get", "quota", "-A", "-o", "json", env={})
            self.assertIn("[]", quotas)
            self.assertTrue((Path(f"{self.root}{data}") / "LOCK").exists())

    def test_the_bridge_starts_as_the_unit_says(self):
        # Neither an API server nor NATS is there: it waits for them.
        kubeconfig = self.work / "kubeconfig"
        kubeconfig.write_text(
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
            " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}"
        )
        with self.started("quota-bridge", {"HOSTNAME": "host"}, f"--kubeconfig={kubeconfig}", "--nats.url=nats://127.0.0.1:9") as log:
            self.assertEqual(self.answer(log, "/livez"), 200)

    def test_bash_completes_the_command_line(self):
        completions = self.root / "usr/share/bash-completion/completions/quotactl"
        words = 'COMP_WORDS=(quotactl ledger ver); COMP_CWORD=2; COMP_TYPE=9; f=$(complete -p quotactl | sed "s/.*-F \\([^ ]*\\).*/\\1/")'
        script = f'. "{completions}"; {words}; $f quotactl ver ledger; echo "${{COMPREPLY[@]}}"'
        path = f"{self.root}/usr/bin:{os.environ['PATH']}"
        said = run("bash", "--norc", "-c", script, env={"PATH": path})
        self.assertEqual(said.split(), ["verify"])
        for shell, file in (("zsh", "zsh/vendor-completions/_quotactl"), ("fish", "fish/vendor_completions.d/quotactl.fish")):
            text = (self.root / "usr/share" / file).read_text()
            self.assertEqual(text, run(self.root / "usr/bin/quotactl", "completions", shell, env={}))
