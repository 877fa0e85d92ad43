// The API of the daemon that served the page. The token is stored until the tab is closed.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const KEY = "quota-ledger-token";
/** How long an answer may take, in milliseconds. */
const PATIENCE = 30e3;
/** After so many milliseconds without a byte a watch is dead: the daemon sends something every 20 seconds. */
const SILENCE = 60e3;
/** The browser shows its client certificate only to requests with credentials. There are no cookies. */
const credentials = "same-origin";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY),
};

/** A refusal of the API. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `the daemon answered ${status}`);
    this.status = status;
    this.problem = problem ?? {};
  }
}

const url = (path, query = {}) => {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  url.search = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""),
  );
  return url;
};

const headers = (more = {}) => token.get() ? { ...more, authorization: `Bearer ${token.get()}` } : more;

const unreachable = (error) => {
  if (error.name === "AbortError" || error instanceof SyntaxError) throw error;
  throw new Refused(0, { detail: "The daemon does not answer" });
};

/** Sends a request; throws [Refused] unless the response is a success. */
export async function send(path, { query, signal, method, body, type, accept } = {}) {
  const limit = AbortSignal.timeout(PATIENCE);
  const answer = await fetch(url(path, query), {
    method, body, credentials, signal: signal ? AbortSignal.any([signal, limit]) : limit,
    headers: headers({ ...(type && { "content-type": type }), ...(accept && { accept }) }), cache: "no-store",
  }).catch(unreachable);
  if (answer.ok) return answer;
  throw new Refused(answer.status, await answer.json().catch(() => null));
}

/** The JSON of the API's response. */
export const ask = async (path, options) => (await send(path, options)).json().catch(unreachable);

/** The path of a resource in a namespace. */
export const of = (namespace, rest) => `v1/namespaces/${encodeURIComponent(namespace)}/${rest}`;

/** Whether a failure says nothing about what was asked: the daemon is away, or cannot answer now. */
export const isAway = (error) => error !== undefined && (error.status === 0 || error.status >= 500);

/** Sends a request whenever `question` changes, and again when `version` does; an answer is kept until the next one
 *  arrives, also while the daemon is away. One request is in flight at a time. Without a question no request is sent. */
export function useAnswer(question, version, work) {
  const [answer, set] = useState({});
  const current = useRef(null);
  const key = question && JSON.stringify(question);
  useEffect(() => {
    if (!key) return undefined;
    const control = new AbortController();
    const { signal } = control;
    let busy = false;
    let again = false;
    const run = () => {
      again = busy;
      if (busy) return;
      busy = true;
      const done = (result) => {
        busy = false;
        if (signal.aborted) return;
        set(result);
        if (again) run();
      };
      (work ?? ask)(question[0], { query: question[1], signal })
        .then((data) => done({ data }),
          (error) => done(({ data, stale }) => isAway(error) && !stale ? { data, error } : { error }));
    };
    current.current = run;
    set(({ data }) => data ? { data, stale: true } : {});
    run();
    return () => {
      control.abort();
      current.current = null;
    };
  }, [key]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) current.current?.();
    first.current = false;
  }, [version]);
  return key ? answer : {};
}

/** Reads the pages of a list one after the other, until there are `count` items. */
export async function pages(path, { query, signal }, count) {
  const items = [];
  let answer;
  do {
    const page = { ...query, limit: Math.min(500, count - items.length), continue: answer?.continue };
    answer = await ask(path, { query: page, signal });
    items.push(...answer.items);
  } while (answer.continue && items.length < count);
  return { ...answer, items };
}

/** Receives entries as server-sent events, and calls `seen` with each. Ends with the connection, or when it is silent: a
 *  network that lost it may never say so. */
export async function watch(last, signal, opened, seen) {
  const silent = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), SILENCE);
  };
  heard();
  try {
    await receive(last, AbortSignal.any([signal, silent.signal]), opened, seen, heard);
  } finally {
    clearTimeout(timer);
  }
}

async function receive(last, signal, opened, seen, heard) {
  const answer = await fetch(url("v1/watch"), {
    signal, headers: headers(last ? { "last-event-id": String(last) } : {}), credentials, cache: "no-store",
  });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => null));
  opened();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (data.length) seen(JSON.parse(data.join("\n")));
    }
  }
}
