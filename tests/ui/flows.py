"""What people do with the page, and what they have to see."""

import hashlib
import os
import re
import signal
import subprocess
import time
import unittest

from playwright.sync_api import expect

from world import PATIENCE, ROOT, SCREENSHOTS, Browser, Cluster, Daemon, looked_at, widget

HISTORY = ROOT / "tests" / "vectors" / "history-a.events.jsonl"


def setUpModule():
    global browser
    browser = Browser()


def tearDownModule():
    browser.close()


class OfARealCluster(unittest.TestCase):
    """The recorded history of a control plane, and a namespace in which everything happens."""

    @classmethod
    def setUpClass(cls):
        # So long that they are still pending on the slowest machine.
        cls.daemon = daemon = Daemon("--reservations.max_ttl=2h")
        subprocess.run([os.environ.get("QUOTACTL", ROOT / "target/debug/quotactl"), "--server", daemon.url, "push", HISTORY],
                       check=True, capture_output=True)
        daemon.quota("demo", "compute", {"requests.cpu": "4", "pods": "10"}, "the first limit")
        daemon.events([widget("demo", "large", {"requests.cpu": "2", "pods": "1"}),
                       widget("demo", "small", {"requests.cpu": "500m", "pods": "1"})])
        # So long that a plot has a point in it, wherever its points begin.
        daemon.until_shown("demo", "4", points=3)
        cls.before = daemon.call("GET", "/v1/status")["asOf"]["sequence"]
        daemon.quota("demo", "compute", {"requests.cpu": "3", "pods": "10"}, "INC-7: too much was promised")
        daemon.until_shown("demo", "3", points=3)
        daemon.call("POST", "/v1/namespaces/demo/reservations",
                    {"reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": "web-1", "uid": "web-1"},
                     "reserved": {"requests.cpu": "400m", "pods": "1"}, "ttl": "2h"})
        try:
            daemon.call("POST", "/v1/namespaces/demo/reservations",
                        {"reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": "web-2", "uid": "web-2"},
                         "reserved": {"requests.cpu": "1", "pods": "1"}, "ttl": "2h"})
            raise AssertionError("it was granted")
        except OSError as error:
            assert error.code == 403, error

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def open(self, hash="", **options):
        page = browser.page(self.daemon, hash, **options)
        self.addCleanup(page.context.close)
        return page

    def test_the_fullest_namespaces_come_first_and_are_found(self):
        page = self.open()
        rows = page.locator("table.namespaces tbody tr")
        wanted = [item["namespace"] for item in self.daemon.call("GET", "/v1/usage")["items"]]
        expect(rows).to_have_count(len(wanted))
        self.assertEqual([row.split("\n")[0].split("\t")[0] for row in rows.all_inner_texts()], wanted)
        demo = rows.filter(has=page.get_by_role("link", name="demo", exact=True))
        expect(demo).to_contain_text("requests.cpu")
        expect(demo).to_contain_text("96%")
        expect(demo.get_by_role("img", name="96% of requests.cpu: used 2500m, reserved 400m, hard 3")).to_be_visible()
        expect(page.locator(".mode")).to_have_text("live")
        expect(page.locator(".changes")).to_contain_text("INC-7: too much was promised")
        expect(page.locator("svg.spark").first).to_be_visible()
        looked_at(page, "overview")
        demo.get_by_role("button", name="used 2500m of 3 requests.cpu in demo: what makes it").click()
        expect(page.get_by_role("dialog").locator("tbody tr")).to_have_count(3)
        page.keyboard.press("Escape")
        expect(demo.get_by_role("button")).to_be_focused()
        # By the keyboard alone: to the search, and on to the namespace.
        page.keyboard.press("/")
        page.keyboard.type("dem")
        expect(rows).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="demo", level=1)).to_be_visible()

    def test_a_group_shows_what_its_namespaces_take_and_what_is_guaranteed_to_others(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        of = lambda names: {"labels": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]}}
        daemon.call("PUT", "/v1/groups/company", {"selector": of(["shared"]), "hard": {"pods": "10"}})
        daemon.call("PUT", "/v1/groups/red", {"selector": of(["a", "b"]), "hard": {"pods": "8"}, "parent": "company",
                                              "guaranteed": {"pods": "5"}})
        daemon.events([widget("a", "x", {"pods": "2"}), widget("b", "y", {"pods": "1"})])
        before = daemon.call("GET", "/v1/status")["asOf"]["sequence"]
        page = browser.page(daemon)
        self.addCleanup(page.context.close)
        groups = page.locator("section[aria-labelledby=groups] tbody tr")
        expect(groups).to_have_count(2)
        expect(groups.first).to_contain_text("company")
        expect(groups.first.get_by_role(
            "img", name="50% of pods: used 3, reserved 0, guaranteed to others 2, hard 10")).to_be_visible()
        looked_at(page, "overview-groups")
        groups.nth(1).get_by_role("link", name="red").click()
        expect(page.get_by_role("heading", name="red", level=1)).to_be_visible()
        members = page.locator("section[aria-labelledby=members] tbody tr")
        expect(members).to_have_count(2)
        expect(members.nth(0)).to_contain_text("2")
        expect(page.locator("section[aria-labelledby=about]")).to_contain_text("kubernetes.io/metadata.name In a, b")
        # A change is shown without asking for it, and a past moment as it was.
        daemon.events([widget("a", "z", {"pods": "4"})])
        limits = page.locator("section[aria-labelledby=limits] tbody tr")
        expect(limits).to_contain_text("87%")
        looked_at(page, "group")
        page.goto(f"{daemon.url}/ui#/group/red?sequence={before}")
        expect(limits).to_contain_text("37%")
        page.goto(f"{daemon.url}/ui#/group/red")
        page.locator("section[aria-labelledby=about]").get_by_role("link", name="company").click()
        expect(limits).to_contain_text("70%")
        # A namespace shows which groups count it, and a denial by one of them leads there.
        page.goto(f"{daemon.url}/ui#/ns/a")
        counting = page.locator("section[aria-labelledby=groups] tbody tr")
        expect(counting).to_have_count(2)
        expect(counting.filter(has_text="red")).to_contain_text("87%")
        expect(counting.filter(has_text="red").get_by_role("cell").last).to_have_text("6")
        looked_at(page, "namespace-groups")
        page.goto(f"{daemon.url}/ui#/why?ns=a")
        text = page.get_by_label("Amounts, or an object in YAML or JSON")
        verdict = page.get_by_role("status")
        text.fill("pods=1, gpus=1")
        page.get_by_role("button", name="Check").click()
        expect(verdict).to_contain_text("Nothing limits gpus here")
        text.fill("pods=2")
        page.get_by_role("button", name="Check").click()
        expect(verdict).to_contain_text("exceeded quota: red, requested: pods=2")
        failing = page.locator("tr.failing")
        expect(failing).to_have_count(1)
        looked_at(page, "why-group")
        failing.get_by_role("link", name="red").click()
        expect(page.get_by_role("heading", name="red", level=1)).to_be_visible()

    def test_a_namespace_shows_all_that_there_is_of_it(self):
        page = self.open("#/ns/demo?span=1h")
        cpu = page.locator("section[aria-labelledby=quotas] tr", has_text="requests.cpu").first
        expect(cpu).to_contain_text("96%")
        for text in ["2.5", "0.4", "3", "0.1"]:
            expect(cpu).to_contain_text(text)
        reservations = page.locator("section[aria-labelledby=reservations]")
        expect(reservations).to_contain_text("Pod web-1")
        expect(reservations).to_contain_text(re.compile(r"1h \d+m"))
        objects = page.locator("section[aria-labelledby=objects] tbody tr")
        expect(objects).to_have_count(3)
        expect(objects.nth(0)).to_contain_text("large")
        expect(objects.nth(2)).to_contain_text("reserved")
        denials = page.locator("section[aria-labelledby=denials]")
        expect(denials).to_contain_text("web-2")
        expect(denials).to_contain_text("exceeded quota: compute, requested: requests.cpu=1")
        expect(page.locator(".plot canvas")).to_be_visible()
        expect(page.get_by_role("img", name="requests.cpu in compute: used from")).to_have_accessible_name(
            re.compile("to 2.5, hard from 4 to 3$"))
        looked_at(page, "namespace")
        # The limit's own change is shown, and links to its time.
        moved = page.locator(".moved li", has_text="limit from 4 to 3")
        moved.get_by_role("button").click()
        expect(page.locator(".timebar .note")).to_contain_text("as of entry")
        cpu = page.locator("section[aria-labelledby=quotas] tr", has_text="requests.cpu").first
        expect(cpu).to_contain_text("83%")

    def test_each_number_opens_the_entries_behind_it(self):
        page = self.open("#/ns/demo")
        page.get_by_role("button", name="used 2500m of requests.cpu: what makes it").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("tbody tr")).to_have_count(3)
        expect(dialog.locator("tbody tr").first).to_contain_text("large")
        looked_at(page, "explained")
        dialog.locator("tbody tr").first.get_by_role("link").click()
        entry = page.locator(".timeline .chosen")
        expect(entry).to_contain_text("object seen")
        expect(entry.locator("pre")).to_contain_text('"name": "large"')
        page.go_back()
        page.get_by_role("button", name="hard 3 of requests.cpu: the entry that set it").click()
        entry = page.locator(".timeline .chosen")
        expect(entry).to_contain_text("quota set")
        expect(entry).to_contain_text("INC-7: too much was promised")
        expect(entry).to_contain_text("anonymous")
        looked_at(page, "entries")

    def test_a_past_moment_is_shown_as_it_was(self):
        page = self.open(f"#/ns/demo?sequence={self.before}")
        note = page.locator(".timebar .note")
        expect(note).to_have_text(f"the past, as of entry #{self.before}")
        cpu = page.locator("section[aria-labelledby=quotas] tr", has_text="requests.cpu").first
        expect(cpu).to_contain_text("62%")
        expect(page.locator("section[aria-labelledby=reservations]")).to_contain_text("None is pending.")
        expect(page.locator("section[aria-labelledby=objects] tbody tr")).to_have_count(2)
        expect(page.locator("section[aria-labelledby=denials]")).to_contain_text("None is remembered.")
        expect(page.locator(".mode")).to_have_text("still")
        looked_at(page, "past")
        # One entry on: the lower limit.
        page.get_by_role("button", name="One entry on").click()
        expect(cpu).to_contain_text("83%")
        page.get_by_role("link", name="Namespaces").click()
        demo = page.locator("table.namespaces tbody tr", has_text="demo")
        expect(demo).to_contain_text("83%")
        expect(page.locator(".changes li").first).to_contain_text("INC-7")
        page.go_back()
        expect(cpu).to_contain_text("83%")
        # The slider by the keyboard, to before anything was, and back.
        slider = page.get_by_role("slider", name="Moment")
        slider.focus()
        page.keyboard.press("Home")
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("No quota limits anything here.")
        expect(note).to_have_text(re.compile("^the past, as of entry #"))
        page.get_by_role("button", name="Now", exact=True).click()
        expect(cpu).to_contain_text("96%")
        self.assertFalse(page.complaints)

    def test_the_keyboard_goes_on_where_a_link_leads_and_nothing_with_the_focus_is_covered(self):
        page = self.open(viewport={"width": 1000, "height": 600})
        page.get_by_role("link", name="demo", exact=True).first.click()
        expect(page.get_by_role("heading", name="demo")).to_be_visible()
        expect(page.locator("#main")).to_be_focused()
        covered = """() => {
            const bar = document.querySelector(".timebar").getBoundingClientRect();
            const own = document.activeElement;
            const place = own.getBoundingClientRect();
            const isInBar = own.closest(".timebar") || own.closest("header");
            return !isInBar && bar.top <= place.top && place.bottom <= bar.bottom;
        }"""
        for key in ["Tab"] * 60 + ["Shift+Tab"] * 60:
            page.keyboard.press(key)
            self.assertFalse(page.evaluate(covered), page.evaluate("document.activeElement.outerHTML"))

    def test_what_is_asked_for_fits_or_not_and_why(self):
        page = self.open("#/why?ns=demo")
        text = page.get_by_label("Amounts, or an object in YAML or JSON")
        check = page.get_by_role("button", name="Check")
        verdict = page.get_by_role("status")
        text.fill("requests.cpu=100m, pods: 1")
        check.click()
        expect(verdict).to_contain_text("It fits")
        text.fill("requests.cpu=300m")
        check.click()
        expect(verdict).to_contain_text("It does not fit")
        expect(verdict).to_contain_text("exceeded quota: compute, requested: requests.cpu=300m")
        expect(verdict).to_contain_text("pending reservations have expired then")
        expect(page.locator("tr.failing")).to_contain_text("requests.cpu")
        looked_at(page, "why")
        page.get_by_role("button", name="what takes requests.cpu in compute").click()
        expect(page.get_by_role("dialog").locator("tbody tr")).to_have_count(3)
        page.keyboard.press("Escape")
        text.fill("requests.cpu=700")
        check.click()
        expect(verdict).to_contain_text("never as it is")
        text.fill("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    image: i\n"
                  "    resources:\n      requests:\n        cpu: 2\n")
        check.click()
        expect(verdict).to_contain_text("requested: requests.cpu=2")
        expect(page.locator("tbody tr", has_text="pods")).to_be_visible()
        self.assertFalse(page.complaints)
        text.fill("{ nonsense")
        check.click()
        expect(page.get_by_role("alert")).to_contain_text("cannot read the body")

    def test_changes_are_shown_as_they_happen(self):
        page = self.open("#/ns/live")
        expect(page.locator(".mode")).to_have_text("live")
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("No quota limits anything here.")
        self.daemon.quota("live", "q", {"requests.cpu": "8"})
        self.daemon.events([widget("live", "w", {"requests.cpu": "2"})])
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("25%")
        # Without a watch the page polls.
        page.route("**/v1/watch*", lambda route: route.abort())
        page.reload()
        expect(page.locator(".mode")).to_have_text("polling")
        self.daemon.events([widget("live", "x", {"requests.cpu": "4"})])
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("75%")

    def test_a_change_of_the_status_needs_no_entry(self):
        page = self.open("#/ns/demo")
        expect(page.locator(".mode")).to_have_text("live")
        badges = page.locator(".standing .badge")
        expect(badges).to_have_count(0)

        def changed(route):
            answer = route.fetch()
            route.fulfill(response=answer, json={**answer.json(), "diskLow": True, "lagging": True})
        page.route("**/v1/status", changed)
        expect(badges).to_have_text(["disk low", "sources behind"])
        page.unroute("**/v1/status")
        expect(badges).to_have_count(0)
        self.assertFalse(page.complaints)

    def test_a_watch_that_falls_silent_is_opened_again(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        page = browser.page(daemon)
        self.addCleanup(page.context.close)
        page.clock.install()
        page.reload()
        mode = page.locator(".mode")
        expect(mode).to_have_text("live")
        # It sends nothing more, but the connection stays.
        daemon.process.send_signal(signal.SIGSTOP)
        page.clock.fast_forward(61_000)
        expect(mode).to_have_text("polling")
        daemon.process.send_signal(signal.SIGCONT)
        expect(mode).to_have_text("live")
        daemon.quota("late", "q", {"pods": "1"})
        expect(page.get_by_role("link", name="late").first).to_be_visible()

    def test_sources_tell_how_they_stand(self):
        page = self.open("#/sources")
        main = page.get_by_role("main")
        expect(main).to_contain_text("not behind")
        expect(main).to_contain_text("anonymous: read, reserve, ingest, admin")
        expect(main).to_contain_text("events come by HTTP")
        looked_at(page, "sources")

    def test_sources_tell_how_far_they_have_shown_each_kind(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        daemon.events([{"type": "BOOKMARK", "clusterUid": "c", "instance": "bridge-0",
                        "resources": {"pods": {"watermark": "2026-11-20T10:00:00Z", "resourceVersion": "300"}}}])
        status = daemon.call("GET", "/v1/status")
        self.assertEqual([kind["resource"] for source in status["sources"] for kind in source["watermarks"]], ["pods"])
        page = browser.page(daemon, "#/sources")
        self.addCleanup(page.context.close)
        # It does not count before all pods have been listed.
        expect(page.get_by_role("row", name="pods")).to_contain_text("not known")

    def test_it_is_usable_on_a_phone_and_in_the_dark(self):
        views = {"overview": "", "namespace": "#/ns/demo?span=1h", "long-names": "#/ns/team-gpu", "why": "#/why?ns=demo",
                 "entries": "#/entries", "sources": "#/sources"}
        for name, hash in views.items():
            page = self.open(hash, viewport={"width": 360, "height": 780}, color_scheme="dark", has_touch=True, is_mobile=True)
            expect(page.locator(".mode")).to_have_text("live")
            expect(page.locator(".card").first).to_be_visible()
            expect(page.get_by_text("Loading")).to_have_count(0)
            # A phone zooms out of a page that is wider, so the screen is what counts.
            wide = page.evaluate("document.documentElement.scrollWidth")
            self.assertEqual(wide, 360, f"{name} is wider than the screen")
            # Nor has a table to be moved to be read: its rows are blocks of named values.
            wide = page.evaluate("[...document.querySelectorAll('.scroll')].filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.innerText)")
            self.assertEqual(wide, [], f"{name}: tables are wider than the screen")
            if name == "namespace":
                row = page.get_by_role("region", name="Limits of compute").get_by_role("row", name="requests.cpu")
                named = row.evaluate("(row) => [...row.cells].map((cell) => getComputedStyle(cell, '::before').content)")
                self.assertEqual([it.strip('"').strip() for it in named if it not in ("none", "normal")],
                                 ["Taken", "Used", "Reserved", "Hard", "Available"])
            looked_at(page, f"phone-{name}")

    def test_nothing_is_written_into_the_page(self):
        answer = self.open().goto(f"{self.daemon.url}/ui")
        policy = answer.headers["content-security-policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        page = self.open()
        again = page.request.get(f"{self.daemon.url}/ui/app.js", headers={"if-none-match": page.request.get(f"{self.daemon.url}/ui/app.js").headers["etag"]})
        self.assertEqual(again.status, 304)
        self.assertEqual(page.request.get(f"{self.daemon.url}/ui/nothing.js").status, 404)
        self.assertTrue(page.request.get(f"{self.daemon.url}/ui/").url.endswith("/ui"))


class WithTokens(unittest.TestCase):
    def test_the_token_is_asked_for_and_kept_in_the_tab(self):
        quotactl = os.environ.get("QUOTACTL", ROOT / "target/debug/quotactl")
        daemon = Daemon("--auth.tokens_file=tokens.toml", files={"tokens.toml": ""})
        self.addCleanup(daemon.close)
        tokens = {}
        for name, where in [("everything", "*"), ("team", "team-a")]:
            made = subprocess.run([quotactl, "token", "create", "--principal", name, "--role", "read,admin", "--namespace", where,
                                   "--file", "tokens.toml"], cwd=daemon.directory.name, check=True, capture_output=True, text=True)
            tokens[name] = made.stdout.strip()
        # The file is read when the daemon starts.
        daemon.stop()
        daemon.start()
        daemon.call("PUT", "/v1/namespaces/team-a/quotas/q", {"spec": {"hard": {"pods": "5"}}},
                    {"authorization": f"Bearer {tokens['everything']}"})
        page = browser.page(daemon)
        self.addCleanup(page.context.close)
        field = page.get_by_label("Token")
        expect(field).to_be_visible()
        # What a browser itself says of a 401 is no fault of the page.
        page.complaints.clear()
        looked_at(page, "token")
        field.fill("qlt_wrong_wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        field.fill(tokens["everything"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="team-a").first).to_be_visible()
        self.assertEqual(page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]"), ["", 0, 1])
        page.reload()
        expect(page.get_by_role("link", name="team-a").first).to_be_visible()
        page.get_by_role("button", name="Forget token").click()
        expect(field).to_be_visible()
        self.assertEqual(page.evaluate("sessionStorage.length"), 0)
        # One who may read a namespace only opens it by its name.
        field.fill(tokens["team"])
        page.keyboard.press("Enter")
        name = page.get_by_label("Namespace", exact=True)
        expect(page.get_by_role("main")).to_contain_text("needs the role read in all namespaces")
        name.fill("team-a")
        page.keyboard.press("Enter")
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("pods")
        expect(page.locator(".mode")).to_have_text("live")
        # It sees the past of that namespace in each view.
        page.evaluate("location.hash = '#/entries?namespace=team-a&sequence=1'")
        expect(page.get_by_role("main")).to_contain_text("team-a")
        expect(page.get_by_role("main")).not_to_contain_text("needs the role")


class OfACluster(unittest.TestCase):
    def shown(self, wanted):
        """What the page says of each node, once it is what is wanted: on a busy machine the lead may change."""
        deadline = time.monotonic() + 2 * PATIENCE / 1000
        while True:
            rows = [row.get_by_role("cell").all_inner_texts() for row in self.rows.all()]
            nodes = {name.split()[0]: dict(zip(["role", "leader", "term", "behind"], cells))
                     for name, cells in zip(self.rows.get_by_role("rowheader").all_inner_texts(), rows)}
            if wanted(nodes):
                return nodes
            self.assertLess(time.monotonic(), deadline, nodes)
            self.page.wait_for_timeout(100)

    def test_its_nodes_are_shown_and_so_is_the_loss_of_one(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        follower = next(node for node in cluster.NODES if node != cluster.leader())
        self.page = page = browser.page_at(cluster.apis[follower], "#/sources")
        self.addCleanup(page.context.close)
        section = page.locator("section[aria-labelledby=cluster]")
        self.rows = section.locator("tbody tr")

        def agree(nodes):
            leaders = [node for node, of in nodes.items() if of["role"] == "leader" and node != follower]
            return len(nodes) == 3 and len(leaders) == 1 and all(
                of["leader"] == leaders[0] and of["behind"] == "0" for of in nodes.values())
        nodes = self.shown(agree)
        leader = nodes[follower]["leader"]
        expect(section).to_contain_text(f"{follower} (this one)")
        # While a lead changes, replicas may refuse to answer.
        page.complaints = [complaint for complaint in page.complaints if "status of 503" not in complaint]
        looked_at(page, "cluster")
        # Another node takes the lead, and the page shows it without an action of its user.
        cluster.kill(leader)
        term = int(nodes[leader]["term"])
        self.shown(lambda nodes: nodes[leader]["role"] == "unreachable"
                   and any(of["role"] == "leader" and int(of["term"]) > term for of in nodes.values()))
        expect(section.locator("header .badge")).to_have_text(re.compile(r"^n\d leads$"))
        page.screenshot(path=SCREENSHOTS / "cluster-without-one.png", full_page=True)


class Large(unittest.TestCase):
    def test_the_first_view_of_ten_thousand_namespaces_takes_less_than_a_second(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        events = []
        for number in range(10_000):
            namespace = f"team-{number:05}"
            quota = {"apiVersion": "v1", "kind": "ResourceQuota",
                     "metadata": {"name": "q", "namespace": namespace, "uid": f"q-{number}", "resourceVersion": "1"},
                     "spec": {"hard": {"requests.cpu": "10", "pods": "20"}}}
            events.append({"type": "ADDED", "object": quota})
            events.append(widget(namespace, "w", {"requests.cpu": f"{number}m", "pods": "1"}))
        daemon.events(events)
        page = browser.page(daemon, "#/sources")
        self.addCleanup(page.context.close)
        expect(page.locator(".mode")).to_have_text("live")
        session = page.context.new_cdp_session(page)
        # Processor time, not time: others use the machine too.
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def spent():
            metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
            return metrics["TaskDuration"]

        before = spent()
        page.evaluate("location.hash = '#/'")
        rows = page.locator("table.namespaces tbody tr")
        expect(rows).to_have_count(100)
        expect(rows.first).to_contain_text("team-09999")
        expect(page.locator("svg.spark")).to_have_count(40)
        took = spent() - before
        print(f"the first view of 10,000 namespaces: {took:.3f} s of the main thread")
        self.assertLess(took, 1.0)
        page.get_by_role("button", name="Show 100 more").click()
        expect(rows).to_have_count(200)
        page.get_by_role("searchbox").fill("team-0123")
        expect(rows).to_have_count(10)
        expect(rows.first).to_contain_text("team-01239")
        looked_at(page, "large")


class Vendored(unittest.TestCase):
    def test_libraries_are_as_they_were_published(self):
        vendor = ROOT / "src" / "ui" / "vendor"
        sums = dict(reversed(line.split()) for line in (vendor / "SHA256SUMS").read_text().splitlines())
        files = {path.name for path in vendor.iterdir()} - {"renew", "SHA256SUMS"}
        self.assertEqual(files, set(sums))
        for name, wanted in sums.items():
            self.assertEqual(hashlib.sha256((vendor / name).read_bytes()).hexdigest(), wanted, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
