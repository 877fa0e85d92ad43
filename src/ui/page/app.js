// The page: its frame, the token of its user, and the displayed view.

import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, isAway, token, useAnswer } from "./api.js";
import { Entries } from "./entries.js";
import { Group } from "./groups.js";
import { useLive, useTick } from "./live.js";
import { Namespace } from "./namespace.js";
import { UnknownView } from "./missing.js";
import { Overview } from "./overview.js";
import { clock } from "./parts.js";
import { Report } from "./report.js";
import { address, moment, useRoute } from "./route.js";
import { Sources } from "./sources.js";
import { SPANS, TimeBar } from "./timebar.js";
import { Why } from "./why.js";

/** Interval of requests for the status, in milliseconds: a source that lags, a low disk and the loss of a leader cause no
 *  entries. */
const STATUS = 5000;

const VIEWS = { overview: Overview, ns: Namespace, group: Group, why: Why, entries: Entries, report: Report, sources: Sources };
/** The views that show the present only. */
const TIMELESS = ["why", "report", "sources"];
const LINKS = [["overview", "Namespaces"], ["entries", "Entries"], ["why", "Would it fit?"], ["report", "Report"], ["sources", "Sources"]];

function Token({ refused, done }) {
  const submit = (event) => {
    event.preventDefault();
    token.set(event.target.elements.token.value.trim());
    done();
  };
  return html`<main id="main" class="token"><h1>Quota Ledger</h1>
    <form class="card" onSubmit=${submit}>
      <label>Token <input name="token" type="password" autocomplete="off" required autofocus /></label>
      ${refused && html`<p class="problem" role="alert">The daemon does not know this token.</p>`}
      <p><button class="primary">Open</button></p>
      <p class="quiet">It is kept in this tab only, and sent to this daemon only.</p>
    </form></main>`;
}

/** The requested moment, as the last entry before it, so that all parts of the page show the same state. */
function useMoment({ at, sequence }) {
  const isPast = Boolean(at || sequence);
  const answer = useAnswer(isPast ? ["v1/usage", { at, sequence, limit: 1 }] : null, 0);
  if (!isPast) return { moment: {} };
  if (answer.error && !answer.data) return { error: answer.error };
  const asOf = answer.data?.asOf;
  if (!asOf || answer.stale) return { waits: true };
  return { moment: { sequence: asOf.sequence }, sequence: asOf.sequence, until: at ?? asOf.time };
}

const MODES = { live: ["live", "streaming"], polling: ["polling", "polls every 5 seconds"], off: ["still", "does not follow"] };

function toMain() {
  const main = document.getElementById("main");
  main.tabIndex = -1;
  main.focus();
}

function Frame({ context, route, children, forget }) {
  const { status, live } = context;
  const { asOf, lagging, caughtUp, diskLow, cluster } = status.data;
  const [mode, meaning] = MODES[live];
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      toMain();
    }}>Skip to the content</a>
    <header class="top">
      <a class="brand" aria-label="Quota Ledger" href=${address("overview", "", moment(route.query))}><img src="ui/icon.svg" alt="" width="18" height="18" /><span>Quota Ledger</span></a>
      <nav aria-label="Views">${LINKS.map(([name, text]) => html`
        <a href=${address(name, "", moment(route.query))} aria-current=${route.name === name ? "page" : null}>${text}</a>`)}</nav>
      <p class="standing">
        ${cluster && !cluster.leader && html`<span class="badge bad">no leader</span>`}
        ${diskLow && html`<span class="badge bad">disk low</span>`}
        ${!caughtUp ? html`<span class="badge bad">not caught up</span>` : lagging && html`<span class="badge warn">sources behind</span>`}
        <span class="mode ${mode}" title=${meaning}><span>${mode}</span></span>
        <span class="number" title=${asOf.time}>#${asOf.sequence}</span>
        ${token.get() && html`<button type="button" class="link" onClick=${forget}>Forget token</button>`}
      </p>
    </header>
    ${context.hasTime && html`<${TimeBar} context=${context} spanName=${context.spanName} />`}
    ${children}`;
}

function Page({ again }) {
  const route = useRoute();
  const View = VIEWS[route.name] ?? UnknownView;
  const [greeted, greet] = useState(null);
  const seen = useRef(null);
  const isPast = Boolean(route.query.at || route.query.sequence);
  const { version, mode } = useLive(Boolean(greeted) && !isPast);
  // A token that is not known does not become known by itself.
  const [isRefused, refuse] = useState(false);
  const checks = useTick(STATUS, !isRefused);
  const status = useAnswer(["v1/status", {}], `${version} ${checks}`);
  useEffect(() => refuse(status.error?.status === 401), [status.error]);
  useEffect(() => {
    if (!status.data) return;
    seen.current = new Date();
    greet(status.data);
  }, [status.data]);
  const hasTime = route.name in VIEWS && !TIMELESS.includes(route.name);
  const when = useMoment(hasTime ? route.query : {});
  const shown = useRef(null);
  useEffect(() => {
    // The link that was followed is gone: the keyboard and screen readers go on at the view.
    if (shown.current) toMain();
    shown.current = route;
  }, [route.name, route.target]);
  useEffect(() => {
    document.title = [route.target || LINKS.find(([name]) => name === route.name)?.[1] || route.name, "Quota Ledger"].join(" · ");
  }, [route.name, route.target]);
  if (isRefused) {
    return html`<${Token} refused=${token.get() !== ""} done=${again} />`;
  }
  if (!greeted) {
    return html`<main id="main" class="token"><h1>Quota Ledger</h1>
      <p class=${status.error ? "problem" : "quiet"} role="status">${status.error ? status.error.message : "Loading …"}</p></main>`;
  }
  const spanName = route.query.span in SPANS ? route.query.span : "24h";
  const context = {
    ask, route, version, spanName, span: SPANS[spanName], live: mode,
    status: { data: greeted, error: status.error }, caller: greeted.caller, hasTime,
    moment: when.moment, until: when.until, sequence: when.sequence,
    head: greeted.asOf.sequence, oldest: greeted.oldest?.time,
    showAt: (time) => { location.hash = address(route.name, route.target, { ...route.query, at: time.toISOString(), sequence: "" }); },
  };
  const isGone = isAway(status.error);
  const forget = () => { token.set(""); again(); };
  return html`<${Frame} context=${context} route=${route} forget=${forget}>
    ${status.error && html`<p class="problem banner" role="alert">${status.error.message}.${isGone && ` Last seen ${clock(seen.current)};
      this is what was known then. Trying again …`}</p>`}
    <div class=${isGone ? "away" : ""}>${when.error ? html`<main id="main"><p class="problem" role="alert">${when.error.message}</p></main>`
      : when.waits ? html`<main id="main"><p class="quiet" role="status">Going back …</p></main>`
      : html`<${View} key=${route.name + "/" + route.target} context=${context} />`}</div>
  <//>`;
}

function App() {
  const [attempt, set] = useState(0);
  return html`<${Page} key=${attempt} again=${() => set(attempt + 1)} />`;
}

const place = document.getElementById("app");
place.textContent = "";
render(html`<${App} />`, place);
