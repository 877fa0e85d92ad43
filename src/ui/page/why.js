// Checks whether a request would fit, which limits prevent it, and when there will be room.

import { html, useState } from "./vendor/htm-preact.js";
import { of, send, useAnswer } from "./api.js";
import { Explanation } from "./explain.js";
import { GroupLink } from "./groups.js";
import { Amount, Bar, Countdown, Section, Table, Time, useClock } from "./parts.js";
import { leastBytes, number, taken } from "./quantity.js";
import { change } from "./route.js";

const EXAMPLE = `pods=1
requests.cpu=500m
requests.memory=1Gi`;

const AMOUNT = /^([A-Za-z0-9][\w./-]*)\s*[=:]\s*"?([+-]?[\d.]+[A-Za-z0-9+-]*)"?$/;

/** The request for a typed text: amounts, separated by newlines or commas; or an object in JSON or YAML. */
export function request(text) {
  const lines = text.split(/[\n,]/).map((line) => line.trim()).filter(Boolean);
  const amounts = lines.map((line) => AMOUNT.exec(line));
  if (lines.length && amounts.every(Boolean)) {
    return { type: "application/json", body: JSON.stringify({ reserved: Object.fromEntries(amounts.map(([, name, amount]) => [name, amount])) }) };
  }
  if (text.trim().startsWith("{")) {
    return { type: "application/json", body: `{"object":${text}}` };
  }
  // One document, indented by one level.
  const yaml = text.replace(/\r/g, "").split("\n").filter((line) => !/^(---|\.\.\.)\s*$/.test(line)).map((line) => "  " + line);
  return { type: "application/yaml", body: `object:\n${yaml.join("\n")}\n` };
}

/** How much of a limit is missing; zero or negative if nothing is. */
const missing = (figure) => taken(figure) + number(figure.requested) - number(figure.hard);

function When({ verdict, now }) {
  if (verdict.fits) return null;
  const figures = verdict.quotas.flatMap(({ resources }) => resources);
  if (verdict.retryAfter) {
    return html`<p><b>When:</b> by <${Time} of=${verdict.retryAfter} />, in <${Countdown} until=${verdict.retryAfter} now=${now} />:
      pending reservations have expired then, if nothing else is granted or created.</p>`;
  }
  if (verdict.reason !== "ExceedsHard") return html`<p><b>When:</b> waiting is of no use: the request has to change.</p>`;
  const never = figures.filter((figure) => number(figure.requested) > number(figure.hard));
  if (never.length) {
    return html`<p><b>When:</b> never as it is: it asks for more than the whole limit of ${never.map(({ resource }) => resource).join(", ")}.</p>`;
  }
  return html`<p><b>When:</b> as soon as objects that count go, or the limit is raised. Expiring reservations alone do not make room.</p>`;
}

/** The numbers of a limit, with their columns. */
const NUMBERS = [["requested", ">Requested"], ["used", ">Used"], ["reserved", ">Reserved"], ["guaranteedToOthers", ">Guaranteed to others"], ["hard", ">Hard"]];

function Verdict({ verdict, namespace, context }) {
  const now = useClock();
  const [explained, explain] = useState(null);
  const { pods } = verdict;
  const short = verdict.fits && pods && pods.fit < pods.replicas;
  const wanted = (short ? pods.quotas ?? [] : verdict.quotas).flatMap(({ name, kind, resources }) => resources
    .filter(({ requested }) => number(requested) !== 0)
    .map((figure) => ({ quota: name, isGroup: kind === "ClusterResourceQuota", figure })));
  wanted.sort((a, b) => missing(b.figure) > 0 ? 1 : missing(a.figure) > 0 ? -1 : 0);
  const after = (figure) => ({ ...figure, reserved: String(number(figure.reserved) + number(figure.requested)) });
  const least = leastBytes(wanted.map(({ figure }) => figure));
  const numbers = NUMBERS.filter(([name]) => name !== "guaranteedToOthers" || wanted.some(({ figure }) => number(figure[name]) > 0));
  return html`<div class="verdict ${verdict.fits && !short ? "fits" : "denied"}" role="status">
      <h2>${short ? "The object fits, its pods do not" : verdict.fits ? "It fits" : "It does not fit"}</h2>
      ${verdict.detail && html`<p class="detail">${verdict.detail}</p>`}
      ${pods && html`<p>${short ? `${pods.fit} of its ${pods.replicas} pods would fit:` : `So would its pods: ${pods.replicas}.`}</p>`}
      ${short && html`<p class="detail">${pods.detail}</p>`}
      <${When} verdict=${verdict} now=${now} />
      ${verdict.unlimited?.length > 0 && html`<p>Nothing limits <b>${verdict.unlimited.join(", ")}</b> here: is it written as meant?</p>`}
      ${verdict.lagging && html`<p>A source is behind: the numbers may be old.</p>`}
    </div>
    ${wanted.length === 0 ? html`<p class="quiet">No quota and no group limits anything of this in ${namespace}.</p>` : html`
    <${Table} label="Limits that it counts against" columns=${["Quota or group", "Resource", "With it", ...numbers.map(([, title]) => title), "-Holders"]}>
      ${wanted.map(({ quota, isGroup, figure }) => html`<tr class=${missing(figure) > 0 ? "failing" : ""}>
        <td>${isGroup ? html`<${GroupLink} name=${quota} route=${context.route} />` : quota}</td><th scope="row">${figure.resource}</th>
        <td class="bars"><${Bar} figure=${after(figure)} /></td>
        ${numbers.map(([name]) => html`<td class="right"><${Amount} of=${figure[name] ?? "0"} resource=${figure.resource} least=${least} /></td>`)}
        <td>${missing(figure) > 0 && !isGroup && html`<button type="button" class="link"
          onClick=${() => explain({ quota, figure })} aria-label=${`what takes ${figure.resource} in ${quota}`}>what takes it</button>`}</td>
      </tr>`)}
    <//>`}
    ${explained && html`<${Explanation} namespace=${namespace} quota=${explained.quota} figure=${explained.figure}
      context=${{ ...context, moment: {} }} close=${() => explain(null)} />`}`;
}

export function Why({ context }) {
  const { route } = context;
  const [namespace, setNamespace] = useState(route.query.ns ?? "");
  const [text, setText] = useState("");
  const [answer, set] = useState(null);
  const [busy, setBusy] = useState(false);
  const namespaces = useAnswer(namespace.length < 64 ? ["v1/usage", { search: namespace, limit: 20 }] : null, 0);
  const check = async (event) => {
    event.preventDefault();
    const requested = namespace.trim();
    setBusy(true);
    change(route, { ns: requested });
    try {
      const sent = await send(of(requested, "check"), { method: "POST", ...request(text || EXAMPLE) });
      set({ verdict: await sent.json(), namespace: requested });
    } catch (error) {
      set({ error });
    }
    setBusy(false);
  };
  const errors = answer?.error?.problem?.errors ?? [];
  return html`<main id="main"><h1>Would it fit?</h1><div class="cards">
    <${Section} title="What is asked for" id="asked">
      <form class="why" onSubmit=${check}>
        <label>Namespace <input name="namespace" value=${namespace} required list="known" autocapitalize="none" spellcheck="false"
          onInput=${(event) => setNamespace(event.target.value)} /></label>
        <datalist id="known">${(namespaces.data?.items ?? []).map((item) => html`<option value=${item.namespace} />`)}</datalist>
        <label>Amounts, or an object in YAML or JSON
          <textarea name="request" rows="10" spellcheck="false" autocapitalize="none" placeholder=${EXAMPLE} value=${text}
            onInput=${(event) => setText(event.target.value)}></textarea></label>
        <p><button class="primary" disabled=${busy}>Check</button> <span class="quiet">Nothing is written: this asks what would be now.</span></p>
      </form>
    <//>
    ${answer && html`<${Section} title="Answer" id="answer">
      ${answer.error ? html`<div role="alert"><p class="problem">${answer.error.message}</p>
          <ul>${errors.map(({ field, message }) => html`<li><code>${field}</code>: ${message}</li>`)}</ul></div>`
        : html`<${Verdict} verdict=${answer.verdict} namespace=${answer.namespace} context=${context} />`}
    <//>`}
  </div></main>`;
}
