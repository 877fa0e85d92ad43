"""What people do with the page, and what they have to see."""

import hashlib
import os
import re
import signal
import subprocess
import time
import unittest
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

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
        answer = self.daemon.call("GET", "/v1/usage")
        wanted = [item["namespace"] for item in answer["items"]]
        expect(rows).to_have_count(len(wanted))
        self.assertEqual([row.split("\n")[0].split("\t")[0] for row in rows.all_inner_texts()], wanted)
        demo = rows.filter(has=page.get_by_role("link", name="demo", exact=True))
        expect(demo).to_contain_text("requests.cpu")
        expect(demo).to_contain_text("96%")
        expect(demo.get_by_role("img", name="96% of requests.cpu: used 2500m, reserved 400m, hard 3")).to_be_visible()
        expect(page.locator(".mode")).to_have_text("live")
        # What needs attention is counted, and said: what was denied, and which limits were changed; not what objects did.
        counts = page.get_by_role("list", name="What needs attention").get_by_role("listitem")
        counted = answer["counts"]
        expect(counts).to_have_text([
            f"{counted['over']} over their limit", f"{counted['full']} full", f"{counted['atRisk']} at risk (90% and more)",
            "1 denied in the last hour", f"{counted['pending']} pending reservations", f"{len(wanted)} namespaces"])
        denials = page.locator("section[aria-labelledby=denials] li")
        expect(denials).to_have_count(1)
        expect(denials).to_contain_text("demo pods/web-2")
        expect(denials).to_contain_text("exceeded quota: compute, requested: requests.cpu=1")
        changes = page.locator(".changes")
        expect(changes).to_contain_text("INC-7: too much was promised")
        expect(changes).not_to_contain_text("object seen")
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
        page.get_by_role("button", name="Groups", exact=True).click()
        groups = page.locator("table.groups tbody tr")
        expect(groups).to_have_count(2)
        expect(groups.first).to_contain_text("company")
        expect(groups.first).to_contain_text("5 / 10")
        expect(groups.first.get_by_role(
            "img", name="50% of pods: used 3, reserved 0, guaranteed to others 2, hard 10")).to_be_visible()
        # Hatching means reserved, and nothing else.
        image = "(bar) => getComputedStyle(bar).backgroundImage"
        self.assertEqual(page.locator(".bar .others").first.evaluate(image), "none")
        self.assertIn("repeating-linear-gradient", page.locator(".bar .reserved").first.evaluate(image))
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
        expect(page.get_by_role("img", name="pods in red: used from")).to_have_accessible_name(re.compile("hard from 8 to 8$"))
        looked_at(page, "group")
        # Each number opens the objects behind it, in all namespaces, and the entry that set the limit.
        limits.get_by_role("button", name="used 7 of pods: what makes it").click()
        dialog = page.get_by_role("dialog", name="What makes pods in group red")
        parts = dialog.locator("tbody tr")
        expect(parts).to_have_count(3)
        self.assertEqual([row.split() for row in parts.all_inner_texts()], [
            [name, namespace, "widgets.example.com", amount, share, f"#{sequence}"]
            for (name, namespace, amount, share), sequence in zip(
                [("z", "a", "4", "57%"), ("x", "a", "2", "28%"), ("y", "b", "1", "14%")], [before + 1, before - 1, before])])
        expect(dialog).to_contain_text("The limit was set by entry #")
        looked_at(page, "group-explained")
        page.keyboard.press("Escape")
        page.goto(f"{daemon.url}/ui#/group/red?sequence={before}")
        expect(limits).to_contain_text("37%")
        page.goto(f"{daemon.url}/ui#/group/red")
        page.locator("section[aria-labelledby=about]").get_by_role("link", name="company").click()
        expect(limits).to_contain_text("70%")
        # A namespace shows which groups count it, and a denial by one of them leads there.
        page.goto(f"{daemon.url}/ui#/ns/a")
        counting = page.locator("section[aria-labelledby=groups] tbody tr")
        expect(counting).to_have_count(4)
        expect(counting.nth(2)).to_have_text("red")
        expect(counting.nth(3)).to_contain_text("87%")
        expect(counting.nth(3).get_by_role("cell").last).to_have_text("6")
        # What binds is named: the group leaves less than any quota.
        problems = page.get_by_role("region", name="What needs attention").get_by_role("listitem")
        expect(problems).to_have_text("OK No limit is at 90% or more. The closest is pods: 1 left of 8 in group red.")
        # What of a group's usage is of this namespace is explained.
        counting.nth(3).get_by_role("button").click()
        expect(page.get_by_role("dialog").locator("tbody tr")).to_have_count(2)
        page.keyboard.press("Escape")
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
        # It begins with the problem.
        problems = page.get_by_role("region", name="What needs attention").get_by_role("listitem")
        expect(problems.nth(0)).to_contain_text(re.compile(r"Denied .*pods/web-2: exceeded quota: compute"))
        expect(problems.nth(1)).to_have_text("96% requests.cpu: 0.1 left of 3 in quota compute")
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
        page.get_by_role("button", name="hard 3 of requests.cpu: what makes it").click()
        expect(dialog.locator("tbody tr")).to_have_count(3)
        set_by = dialog.locator(".set")
        expect(set_by).to_contain_text("anonymous: INC-7: too much was promised")
        set_by.get_by_role("link").click()
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
        expect(page.get_by_role("main")).to_contain_text("The ledger held nothing of a namespace “demo” then")
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
        expect(page.get_by_role("status")).to_contain_text("The ledger holds nothing of a namespace “live”")
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
                row = page.get_by_role("region", name="Limits of demo").get_by_role("row", name="requests.cpu")
                named = row.evaluate("(row) => [...row.cells].map((cell) => getComputedStyle(cell, '::before').content)")
                self.assertEqual([it.strip('"').strip() for it in named if it not in ("none", "normal")],
                                 ["Used", "Reserved", "Hard", "Available"])
                # The header is one line, and lists are folded: the page is at most four screens.
                self.assertLess(page.locator("header.top").bounding_box()["height"], 45)
                self.assertLess(page.evaluate("document.documentElement.scrollHeight"), 4 * 780)
                expect(page.locator("section[aria-labelledby=objects] table")).to_be_hidden()
                page.get_by_role("heading", name="Objects by workload").click()
                expect(page.locator("section[aria-labelledby=objects] table")).to_be_visible()
            looked_at(page, f"phone-{name}")

    def test_views_that_show_the_present_only_have_no_time_bar(self):
        page = self.open("#/entries")
        expect(page.locator(".timebar")).to_be_visible()
        for view in ["why", "sources"]:
            page.evaluate(f"location.hash = '#/{view}'")
            expect(page.locator(".card").first).to_be_visible()
            expect(page.locator(".timebar")).to_have_count(0)

    def test_what_is_not_there_says_so_and_what_to_do_next(self):
        page = self.open("#/nowhere")
        main = page.get_by_role("main")
        expect(main).to_contain_text("There is no view “nowhere”")
        looked_at(page, "unknown-view")
        main.get_by_role("link", name="See the namespaces").click()
        expect(page.locator("table.namespaces")).to_be_visible()
        page.evaluate("location.hash = '#/ns/demo-x'")
        expect(main).to_contain_text("holds nothing of a namespace “demo-x”")
        expect(main).to_contain_text("quotactl apply -n demo-x -f quota.yaml")
        looked_at(page, "unknown-namespace")
        main.get_by_role("link", name="demo", exact=True).click()
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("compute")
        page.evaluate("location.hash = '#/group/none'")
        expect(main).to_contain_text("No group has the name “none”")
        looked_at(page, "unknown-group", expected="status of 404")

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


class Away(unittest.TestCase):
    def test_an_empty_ledger_says_how_to_begin_and_what_was_known_stays_while_the_daemon_is_away(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        page = browser.page(daemon)
        self.addCleanup(page.context.close)
        expect(page.get_by_role("main")).to_contain_text("The ledger holds nothing yet")
        looked_at(page, "empty")
        # Enter opens what was typed, not what the list still shows: the name itself, or what begins with it.
        for namespace, used in [("app-b", "9"), ("my-app", "8"), ("app", "1")]:
            daemon.quota(namespace, "q", {"pods": "10"})
            daemon.events([widget(namespace, "w", {"pods": used})])
        rows = page.locator("table.namespaces tbody tr")
        expect(rows).to_have_count(3)
        search = page.get_by_role("searchbox", name="Search namespaces")
        heading = page.get_by_role("heading", level=1)
        for typed, opened in [("app", "app"), ("my", "my-app"), ("app-", "app-b")]:
            page.evaluate("location.hash = '#/'")
            search.fill(typed)
            search.press("Enter")
            expect(heading).to_have_text(opened)
        page.evaluate("location.hash = '#/'")
        expect(rows.first).to_contain_text("app-b")
        page.get_by_label("Order").select_option("by name")
        expect(rows.first).to_contain_text("app")
        expect(rows.nth(2)).to_contain_text("my-app")
        page.get_by_role("textbox", name="Labels").fill("team=a")
        page.get_by_role("textbox", name="Labels").press("Enter")
        expect(page.get_by_role("main")).to_contain_text("No namespace has these labels.")
        page.evaluate("location.hash = '#/'")
        expect(rows).to_have_count(3)
        # A denial is shown although it is no entry.
        try:
            daemon.call("POST", "/v1/namespaces/app/reservations", {
                "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": "big", "uid": "big"}, "reserved": {"pods": "20"}})
            raise AssertionError("it was granted")
        except OSError as error:
            assert error.code == 403, error
        expect(page.locator("section[aria-labelledby=denials] li")).to_contain_text("app pods/big")
        daemon.stop()
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text(re.compile(r"Last seen \d\d:\d\d:\d\d"))
        expect(rows).to_have_count(3)
        expect(page.locator(".away table.namespaces")).to_be_visible()
        looked_at(page, "away", expected="^Failed to load resource")
        daemon.start()
        expect(banner).to_have_count(0)
        expect(page.locator(".away")).to_have_count(0)
        daemon.quota("late", "q", {"pods": "1"})
        expect(rows).to_have_count(4)


def filled(count):
    """A daemon with so many namespaces, of which some are full, and pods of several workloads in the first."""
    daemon = Daemon("--reservations.max_ttl=2h")
    events = []
    for number in range(count):
        namespace = f"team-{number % 7}-{['production', 'staging', 'development'][number % 3]}-{number}"
        quota = {"apiVersion": "v1", "kind": "ResourceQuota",
                 "metadata": {"name": "compute-resources", "namespace": namespace, "uid": f"q-{number}", "resourceVersion": "1"},
                 "spec": {"hard": {"requests.cpu": "20", "requests.memory": "64Gi", "pods": "50"}}}
        events += [{"type": "ADDED", "object": quota},
                   widget(namespace, "w", {"requests.cpu": f"{20000 * (count - number) // count}m", "requests.memory": f"{number % 64}Gi"})]
    first = "team-0-production-0"
    events += [widget(first, f"{workload}-7d9f8c5bd4-x{letter}9k2", {"requests.memory": "512Mi", "pods": "1"})
               for workload in ["api", "a-workload-with-quite-a-long-name-indeed"] for letter in "bcdfghjklm"]
    daemon.events(events)
    daemon.quota(first, "storage", {"requests.storage": "1Ti", "count/persistentvolumeclaims.of.a.long.example.com": "5"})
    daemon.call("PUT", "/v1/groups/company", {"selector": {"labels": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}}, "hard": {"requests.cpu": str(20 * count), "requests.memory": f"{64 * count}Gi"}})
    daemon.call("POST", f"/v1/namespaces/{first}/reservations", {
        "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": "queue-worker-5c6d7f8b9-abcde", "uid": "pending"},
        "reserved": {"requests.memory": "512Mi", "requests.storage": "10Gi", "limits.memory": "512Mi"}, "ttl": "2h"})
    try:
        daemon.call("POST", f"/v1/namespaces/{first}/reservations", {
            "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": "api-7d9f8c5bd4-x2x2x", "uid": "denied"}, "reserved": {"requests.cpu": "1"}})
        raise AssertionError("it was granted")
    except OSError as error:
        assert error.code == 403, error
    return daemon, first


class InAllSizes(unittest.TestCase):
    """Each screen, light and dark, with few and with many namespaces."""

    CLIPPED = """() => [...document.querySelectorAll('.scroll')].filter((it) => it.scrollWidth > it.clientWidth + 1)
        .map((it) => it.getAttribute('aria-label'))"""
    # Names of rows that stand on more than three lines, and links of the header that are cut off.
    SLIVERS = """() => [...document.querySelectorAll('tbody th')].filter((it) => {
        const range = document.createRange();
        range.selectNodeContents(it);
        return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 3;
    }).map((it) => it.textContent)"""
    CUT = """() => [...document.querySelectorAll('nav')].filter((it) => it.scrollWidth > it.clientWidth).length"""

    def look(self, daemon, hash, name, width, scheme):
        phone = {"has_touch": True, "is_mobile": True} if width < 600 else {}
        page = browser.page(daemon, hash, viewport={"width": width, "height": 900}, color_scheme=scheme, **phone)
        expect(page.locator(".mode")).to_have_text("live")
        expect(page.locator("table").first).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width, name)
        for fault in [self.CLIPPED, self.SLIVERS]:
            self.assertEqual(page.evaluate(fault), [], f"{name} at {width}")
        self.assertEqual(page.evaluate(self.CUT), 0, f"{name} at {width}")
        looked_at(page, f"{name}-{width}-{scheme}")
        return page

    def test_nothing_is_clipped_and_all_bars_begin_at_one_place(self):
        for count in [3, 36, 500]:
            daemon, first = filled(count)
            self.addCleanup(daemon.close)
            for width in [1440, 1024, 390]:
                for scheme in ["light", "dark"]:
                    page = self.look(daemon, "", f"overview-{count}", width, scheme)
                    expect(page.locator("table.namespaces tbody tr")).to_have_count(min(count, 100 if width > 600 else 20))
                    page.context.close()
                    if count != 36:
                        continue
                    page = self.look(daemon, f"#/ns/{first}?span=1h", "namespace", width, scheme)
                    begins = page.evaluate("[...document.querySelectorAll('.limits .bar')].map((it) => Math.round(it.getBoundingClientRect().left))")
                    self.assertEqual(len(begins), 7)
                    self.assertEqual(len(set(begins)), 1, begins)
                    if width > 900:
                        cards = page.evaluate("[...document.querySelectorAll('.columns > div')].map((it) => Math.round(it.getBoundingClientRect().width))")
                        self.assertLess(abs(cards[0] - cards[1]), 2, cards)
                    if width == 1440 and scheme == "light":
                        self.workloads(page)
                    page.context.close()
                    if scheme == "dark":
                        continue
                    for view, hash in [("group", "#/group/company"), ("report", "#/report?period=24h")]:
                        self.look(daemon, hash, view, width, scheme).context.close()
                    self.asked(daemon, first, width)

    def asked(self, daemon, namespace, width):
        page = browser.page(daemon, f"#/why?ns={namespace}", viewport={"width": width, "height": 900})
        page.get_by_label("Amounts, or an object in YAML or JSON").fill("requests.cpu=30, requests.memory=1Gi, requests.storage=1Gi")
        page.get_by_role("button", name="Check").click()
        expect(page.locator("tr.failing")).to_have_count(1)
        for fault in [self.CLIPPED, self.SLIVERS]:
            self.assertEqual(page.evaluate(fault), [], f"the answer at {width}")
        # Nothing is guaranteed to others here.
        expect(page.get_by_role("columnheader", name="Guaranteed to others")).to_have_count(0)
        page.context.close()

    def workloads(self, page):
        page.locator("section[aria-labelledby=objects] select").select_option("pods")
        objects = page.locator("section[aria-labelledby=objects] tbody tr")
        expect(objects).to_have_count(2)
        api = objects.filter(has_text="api")
        expect(api).to_contain_text(re.compile(r"api\s*×10"))
        expect(api).to_contain_text("50%")
        api.get_by_role("button").click()
        expect(objects).to_have_count(12)
        expect(objects.filter(has_text="api-7d9f8c5bd4-xb9k2").get_by_role("link")).to_be_visible()


class Plots(unittest.TestCase):
    """A week as the daemon would tell it: buckets of which some varied."""

    DAY = 86400

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.daemon.quota("a", "q", {"requests.memory": "64Gi", "pods": "10"})
        cls.daemon.events([widget("a", "w", {"requests.memory": "16Gi", "pods": "1"})])

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def open(self, **options):
        page = browser.page(self.daemon, **options)
        self.addCleanup(page.context.close)
        # What is drawn is recorded, since a canvas does not tell.
        page.add_init_script("""
            window.drawn = []; window.patterns = 0;
            const { fillText, createPattern } = CanvasRenderingContext2D.prototype;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { window.drawn.push(text); return fillText.call(this, text, ...rest); };
            CanvasRenderingContext2D.prototype.createPattern = function (...rest) { window.patterns += 1; return createPattern.apply(this, rest); };""")
        page.asked = []

        def answer(route):
            query = dict(part.split("=") for part in route.request.url.split("?")[1].split("&"))
            page.asked.append(query)
            begin = time.time() - 7 * self.DAY
            told = lambda at: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + at * 3600))
            # Of the first, the most was taken for a moment only.
            memory = {"resource": "requests.memory", "hard": "64Gi", "used": "16Gi", "reserved": "4Gi",
                      "min": {"taken": "8Gi"}, "max": {"taken": "48Gi"}}
            pods = {"resource": "pods", "hard": "10", "used": "1", "reserved": "0", "min": {"taken": "1"}, "max": {"taken": "1"}}
            points = [{"from": told(at), "to": told(at + 1), "time": told(at + 1), "resources": [memory, pods],
                       "quotas": [{"name": "q", "resources": [memory, pods]}]} for at in range(7 * 24)]
            route.fulfill(json={"namespace": "a", "step": "1h", "points": points, "asOf": {"sequence": 2, "time": points[-1]["to"]}})
        page.route("**/usage/history*", answer)
        page.goto(f"{self.daemon.url}/ui#/ns/a?span=7d")
        page.reload()
        expect(page.locator(".plot canvas")).to_be_visible()
        page.get_by_role("heading", name="History").scroll_into_view_if_needed()
        return page

    def test_a_plot_has_dates_units_bands_and_is_looked_into(self):
        page = self.open()
        days = {time.strftime("%m-%d", time.gmtime(time.time() - day * self.DAY)) for day in range(1, 6)}
        page.wait_for_function("drawn.length > 5")
        drawn = set(page.evaluate("drawn.flatMap((text) => text.split('\\n'))"))
        self.assertLessEqual(days, drawn)
        self.assertLessEqual({"bytes", "16Gi", "32Gi", "64Gi"}, drawn)
        # What is reserved is hatched, as in bars.
        self.assertGreater(page.evaluate("patterns"), 0)
        expect(page.locator(".legend li")).to_have_text(["used + reserved", "used", "hard", "least to most of both"])
        over = page.locator(".plot .u-over")
        box = over.bounding_box()
        over.hover(position={"x": box["width"] / 2, "y": 50})
        tip = page.locator(".tip")
        expect(tip).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*used \+ reserved: 20Gi\s*used: 16Gi\s*hard: 64Gi\s*most: 48Gi\s*least: 8Gi$"))
        looked_at(page, "plot-week")
        moment = tip.inner_text().split("\n")[0].replace(" ", "T")
        # A drag zooms, and does not go anywhere.
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 50, steps=5)
        with page.expect_response("**/usage/history*"):
            page.mouse.up()
        whole = page.get_by_role("button", name="Whole span")
        expect(whole).to_be_enabled()
        expect(page.locator(".timebar .note")).to_have_count(0)
        begin, end = [datetime.fromisoformat(unquote(page.asked[-1][name])) for name in ["from", "to"]]
        self.assertAlmostEqual((end - begin).total_seconds() / self.DAY, 3.5, delta=0.2)
        whole.click()
        expect(whole).to_be_disabled()
        # All limits beside each other.
        page.locator("section[aria-labelledby=history] select").select_option("all, in percent")
        expect(page.locator(".legend li")).to_have_text(["requests.memory in q", "pods in q"])
        expect(page.get_by_role("img", name="Limits of a: requests.memory in q 31%, pods in q 10%")).to_be_visible()
        looked_at(page, "plot-all")
        # One click shows the moment.
        page.locator("section[aria-labelledby=history] select").select_option("requests.memory in q")
        over.click(position={"x": box["width"] / 2, "y": 50})
        page.wait_for_function("location.hash.includes('at=')")
        self.assertIn(moment[:10], page.evaluate("location.hash"))

    def test_a_finger_looks_first(self):
        page = self.open(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
        show = page.get_by_role("button", name="Show this moment")
        expect(show).to_be_disabled()
        page.locator(".plot .u-over").tap(position={"x": 150, "y": 50})
        expect(page.locator(".tip")).to_contain_text("used: 16Gi")
        expect(show).to_be_enabled()
        self.assertNotIn("at=", page.evaluate("location.hash"))
        looked_at(page, "plot-phone")
        show.click()
        page.wait_for_function("location.hash.includes('at=')")


class AnotherLimit(unittest.TestCase):
    def test_another_limit_is_tried_on_the_past_by_a_number_the_keyboard_and_a_drag(self):
        daemon = Daemon("--reservations.max_ttl=2h")
        self.addCleanup(daemon.close)
        daemon.quota("a", "compute", {"pods": "10", "requests.cpu": "8"})
        for number in range(4):
            daemon.call("POST", "/v1/namespaces/a/reservations", {
                "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": f"web-{number}", "uid": f"web-{number}"},
                "reserved": {"pods": "1"}, "ttl": "2h"})
        daemon.until_shown("a", "10", points=2)
        before = daemon.call("GET", "/v1/status")["asOf"]["sequence"]
        page = browser.page(daemon, "#/ns/a?span=1h")
        self.addCleanup(page.context.close)
        page.get_by_role("button", name="Try another limit").click()
        trial = page.locator(".trial")
        verdict = trial.get_by_role("status")
        expect(verdict).to_contain_text("10 would have refused none of 4 grants. The peak was 4; the least limit that refuses none is 4.")
        number = page.get_by_role("textbox", name="Limit to try")
        number.fill("2")
        expect(verdict).to_contain_text("2 would have refused 2 of 4 grants, the first at")
        looked_at(page, "limit-tried")
        number.fill("none")
        expect(trial.get_by_role("alert")).to_have_text("That is not an amount.")
        number.fill("3")
        line = page.get_by_role("slider", name="Another limit of pods")
        expect(line).to_have_attribute("aria-valuenow", "3")
        line.press("ArrowUp")
        expect(number).to_have_value("4")
        expect(verdict).to_contain_text("4 would have refused none of 4 grants")
        # To the bottom of the plot.
        box = line.bounding_box()
        plot = page.locator(".plot .u-over").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 200, plot["y"] + plot["height"], steps=5)
        page.mouse.up()
        expect(number).to_have_value("0")
        expect(verdict).to_contain_text("0 would have refused 4 of 4 grants")
        trial.get_by_text("Manifest", exact=True).click()
        expect(trial.locator("pre")).to_have_text(
            'apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: compute\n  namespace: a\nspec:\n  hard:\n    pods: "0"\n    requests.cpu: "8"\n')
        # Nothing was written.
        self.assertEqual(daemon.call("GET", "/v1/status")["asOf"]["sequence"], before)
        trial.get_by_role("button", name="Close").click()
        expect(trial).to_have_count(0)
        self.assertFalse(page.complaints)

    def test_another_limit_of_a_group_is_tried_as_well(self):
        daemon = Daemon("--reservations.max_ttl=2h")
        self.addCleanup(daemon.close)
        selector = {"labels": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]}}
        daemon.call("PUT", "/v1/groups/both", {"selector": selector, "hard": {"pods": "10"}, "soft": {"pods": "1"}})
        for number in range(4):
            daemon.call("POST", f"/v1/namespaces/{'ab'[number % 2]}/reservations", {
                "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": f"web-{number}", "uid": f"web-{number}"},
                "reserved": {"pods": "1"}, "ttl": "2h"})
        page = browser.page(daemon, "#/group/both?span=1h")
        self.addCleanup(page.context.close)
        page.get_by_role("button", name="Try another limit").click()
        trial = page.locator(".trial")
        verdict = trial.get_by_role("status")
        expect(verdict).to_contain_text("10 would have refused none of 4 grants. The peak was 4; the least limit that refuses none is 4.")
        page.get_by_role("textbox", name="Limit to try").fill("2")
        expect(verdict).to_contain_text("2 would have refused 2 of 4 grants, the first at")
        page.get_by_role("slider", name="Another limit of pods").press("ArrowUp")
        expect(verdict).to_contain_text("3 would have refused 1 of 4 grants")
        looked_at(page, "limit-of-group-tried")
        # What is copied is a whole manifest: it can be applied.
        trial.get_by_text("Manifest", exact=True).click()
        manifest = Path(daemon.directory.name) / "both.yaml"
        manifest.write_text(trial.locator("pre").inner_text())
        subprocess.run([os.environ.get("QUOTACTL", ROOT / "target/debug/quotactl"), "--server", daemon.url, "apply", "-f", manifest],
                       check=True, capture_output=True)
        group = daemon.call("GET", "/v1/groups/both")
        self.assertEqual((group["hard"], group["soft"], group["selector"]), ({"pods": "3"}, {"pods": "1"}, selector))


class Reports(unittest.TestCase):
    def test_what_was_consumed_is_shown_and_saved(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        for namespace, pods in [("a", "1"), ("b", "3")]:
            daemon.call("POST", "/v1/events", [{"type": "ADDED", "object": {
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "uid": f"ns-{namespace}", "resourceVersion": "1", "labels": {"team": "red"}}}}])
            daemon.quota(namespace, "q", {"pods": "4", "requests.memory": "8Gi"})
            daemon.events([widget(namespace, "w", {"pods": pods, "requests.memory": "2Gi"})])
        page = browser.page(daemon, "#/report?period=24h")
        self.addCleanup(page.context.close)
        rows = page.locator("section[aria-labelledby=report] tbody tr")
        expect(rows).to_have_count(2)
        # The one that consumed most comes first.
        expect(rows.nth(0)).to_contain_text("b")
        expect(rows.nth(0).get_by_role("img")).to_have_accessible_name(re.compile(r"^7\d% of all$"))
        expect(rows.nth(0).get_by_role("cell").nth(2)).to_have_text(re.compile(r"^7\d%$"))
        expect(page.locator(".timebar")).to_have_count(0)
        # Over time: the parts add up to the whole, the rows above each other.
        columns = page.locator(".stack .column")
        expect(columns).to_have_count(12)
        expect(columns.last.locator("span")).to_have_count(2)
        expect(columns.locator("span")).to_have_count(2)
        share = columns.last.evaluate("(it) => { const [b, a] = [...it.children].map((part) => part.getBoundingClientRect().height); return b / (a + b); }")
        self.assertAlmostEqual(share, 0.75, delta=0.06)
        expect(page.locator(".stack ~ .legend li")).to_have_text(["b", "a"])
        expect(page.get_by_role("img", name="Unit-hours of pods over the period:")).to_be_visible()
        looked_at(page, "report")
        page.get_by_label("Resource").select_option("requests.memory")
        expect(rows.nth(0).get_by_role("img")).to_have_accessible_name(re.compile(r"^(49|5\d)% of all$"))
        page.get_by_label("By").select_option("label")
        expect(page.get_by_role("main")).to_contain_text("Which label?")
        page.get_by_role("textbox", name="Label").fill("team")
        page.get_by_role("textbox", name="Label").press("Enter")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("red")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download CSV").click()
        self.assertRegex(saved.value.suggested_filename, r"^report-label-team-\d{4}-\d\d-\d\d\.csv$")
        lines = saved.value.path().read_text().splitlines()
        self.assertEqual(lines[0].split(",")[:3], ["label:team", "resource", "consumed"])
        self.assertEqual({line.split(",")[0] for line in lines[1:]}, {"red"})
        page.set_viewport_size({"width": 390, "height": 800})
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 390)


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
        for namespace in ["team-a", "team-b"]:
            daemon.call("PUT", f"/v1/namespaces/{namespace}/quotas/q", {"spec": {"hard": {"pods": "5"}}},
                        {"authorization": f"Bearer {tokens['everything']}"})
        page = browser.page(daemon)
        self.addCleanup(page.context.close)
        field = page.get_by_label("Token")
        expect(field).to_be_visible()
        looked_at(page, "token", expected="status of 401")
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
        # One who may read a namespace only sees that one, and is told of another that it is not for them.
        field.fill(tokens["team"])
        page.keyboard.press("Enter")
        rows = page.locator("table.namespaces tbody tr")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("team-a")
        expect(page.locator(".mode")).to_have_text("live")
        daemon.call("PUT", "/v1/namespaces/team-a/quotas/r", {"spec": {"hard": {"pods": "0"}}},
                    {"authorization": f"Bearer {tokens['everything']}"})
        page.evaluate("location.hash = '#/ns/team-b'")
        expect(page.get_by_role("main")).to_contain_text("You are team, with read, admin. Ask an administrator for the role read here")
        looked_at(page, "forbidden", expected="status of 40[13]")
        page.get_by_label("Namespace", exact=True).fill("team-a")
        page.keyboard.press("Enter")
        expect(page.locator("section[aria-labelledby=quotas]")).to_contain_text("pods")
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
        looked_at(page, "cluster", expected="status of 503")
        # Another node takes the lead, and the page shows it without an action of its user.
        cluster.kill(leader)
        term = int(nodes[leader]["term"])
        self.shown(lambda nodes: nodes[leader]["role"] == "unreachable"
                   and any(of["role"] == "leader" and int(of["term"]) > term for of in nodes.values()))
        expect(section.locator("header .badge")).to_have_text(re.compile(r"^n\d leads$"))
        page.screenshot(path=SCREENSHOTS / "cluster-without-one.png", full_page=True)


class Large(unittest.TestCase):
    def test_of_ten_thousand_namespaces_a_hundred_are_drawn(self):
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
        expect(page.locator("svg.spark").first).to_be_visible()
        print(f"the first view of 10,000 namespaces: {spent() - before:.3f} s of the main thread")
        # What is drawn bounds the time, which depends on the machine.
        self.assertLess(page.evaluate("document.querySelectorAll('*').length"), 3_000)
        # Trends are those of the rows on the screen.
        self.assertLess(page.locator("svg.spark").count(), 50)
        page.get_by_role("button", name="Show 100 more").click()
        expect(rows).to_have_count(200)
        rows.last.scroll_into_view_if_needed()
        expect(rows.last.locator("svg.spark")).to_be_visible()
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
