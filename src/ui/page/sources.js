// The status of the ledger, its cluster and its sources.

import { html } from "./vendor/htm-preact.js";
import { Cluster } from "./cluster.js";
import { Section, State, Table, Time, duration, useClock } from "./parts.js";

const age = (time, now) => time ? duration(now - new Date(time)) + " ago" : "not known";

export function Sources({ context }) {
  const { status, live } = context;
  const now = useClock();
  const data = status.data ?? {};
  return html`<main id="main"><h1>Sources</h1><div class="cards">
    <${Section} title="Ledger" id="ledger">
      <${State} answer=${status}><dl>
        <dt>Daemon</dt><dd>quotad ${data.version}</dd>
        <dt>Up to entry</dt><dd><span class="number">#${data.asOf?.sequence}</span>, <${Time} of=${data.asOf?.time} />${" "}
          (${age(data.asOf?.time, now)})</dd>
        <dt>Kept from</dt><dd>${data.oldest ? html`<span class="number">#${data.oldest.sequence}</span>, <${Time}
          of=${data.oldest.time} />` : "nothing yet"}</dd>
        <dt>Grants</dt><dd>${data.diskLow ? html`<span class="badge bad">none: the disk is low</span>`
          : data.caughtUp ? html`<span class="badge good">yes</span>`
          : html`<span class="badge bad">none: sources not caught up with yet</span>`}</dd>
        <dt>Sources</dt><dd>${data.lagging ? html`<span class="badge warn">behind: numbers may be old</span>`
          : html`<span class="badge good">not behind</span>`}</dd>
        <dt>This page</dt><dd>${{ live: "streaming", polling: "polls every 5 seconds", off: "not following" }[live]}</dd>
        <dt>You</dt><dd>${data.caller?.principal}: ${data.caller?.roles.join(", ") || "no role"}</dd>
        <dt>Made with</dt><dd><a href="ui/vendor/htm.LICENSE">htm</a>, <a href="ui/vendor/preact.LICENSE">Preact</a>,${" "}
          <a href="ui/vendor/uplot.LICENSE">uPlot</a></dd>
      </dl><//>
    <//>
    ${data.cluster && html`<${Cluster} now=${now} />`}
    <${Section} title="What has been consumed" id="consumed">
      <${State} answer=${status} nothing=${!data.sources?.length && "Nothing is consumed from a stream: events come by HTTP."}>
        ${(data.sources ?? []).map((source) => html`<h3>${source.name}</h3>
          <p>${source.position !== undefined && html`Position <span class="number">${source.position}</span>, received <${Time}
            of=${source.time} />${" "}(${age(source.time, now)}). `}</p>
          ${source.watermarks && html`<${Table} label=${`How far ${source.name} has shown each kind`}
              columns=${["Kind", "Shown up to", ">Age"]}>
            ${source.watermarks.map((kind) => html`<tr><th scope="row">${kind.resource}</th>
              <td>${kind.watermark ? html`<${Time} of=${kind.watermark} />` : "not known"}</td>
              <td class="right number">${age(kind.watermark, now)}</td></tr>`)}
          <//>`}`)}
      <//>
    <//>
  </div></main>`;
}
