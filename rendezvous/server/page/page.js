// SPDX-License-Identifier: Apache-2.0
// The server's page: reads /status and /timeline and changes nothing. Text of others gets into the
// document by textContent and title alone.
"use strict";

const shownMs = 2000, hiddenMs = 30000, answerMs = 10000;
const mostNotes = 20, mostRounds = 100, noNodes = 1000000000;
const byId = (id) => document.getElementById(id);

const inAddress = new URLSearchParams(location.hash.slice(1));
// A run id belongs to a tenant; undefined: the server has none.
let chosen = inAddress.has("job") ? {run_id: inAddress.get("job"), tenant: inAddress.get("tenant") ?? undefined} : null;
let timer = 0, polling = false, shownTimeline = "";

// ---- the document

function element(tag, kind, text) {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
}

/// Writes to the document only what has changed.
function put(target, property, value) {
    if (target[property] !== value) target[property] = value;
}

/// Gives `parent` as many children as there are items.
function fill(parent, items, make, update) {
    while (parent.children.length > items.length) parent.lastChild.remove();
    const added = document.createDocumentFragment();
    const have = parent.children.length;
    for (let i = 0; i < items.length; ++i) {
        const child = i < have ? parent.children[i] : added.appendChild(make());
        update(child, items[i]);
    }
    if (added.firstChild) parent.append(added);
}

function fillTexts(parent, texts) {
    fill(parent, texts, () => element("li"), (item, text) => put(item, "textContent", text));
}

function row(columns) {
    const made = element("tr");
    for (let i = 0; i < columns; ++i) made.append(element("td"));
    return made;
}

function length(seconds) {
    const s = Math.max(0, seconds);
    if (s < 60) return s.toFixed(1) + " s";
    if (s < 3600) return Math.floor(s / 60) + "m" + String(Math.floor(s % 60)).padStart(2, "0") + "s";
    return Math.floor(s / 3600) + "h" + String(Math.floor(s / 60) % 60).padStart(2, "0") + "m";
}

function phasesOf(seconds) {
    const sum = Object.values(seconds).reduce((a, b) => a + b, 0);
    return Object.entries(seconds).filter(([, s]) => s > 0).map(([name, s]) => ({name, seconds: s, part: 100 * s / sum}));
}

function fillBar(bar, phases) {
    fill(bar, phases, () => element("b"), (piece, phase) => {
        put(piece, "className", phase.name);
        put(piece, "title", phase.name + " " + length(phase.seconds));
        const width = phase.part.toFixed(2) + "%";
        if (piece.style.width !== width) piece.style.width = width;
    });
}

function isChosen(job) {
    return chosen !== null && job.run_id === chosen.run_id && job.tenant === chosen.tenant;
}

function titleOf(job) {
    return job.tenant ? job.tenant + ": " + job.run_id : job.run_id;
}

function queryOf(job) {
    return "job=" + encodeURIComponent(job.run_id) + (job.tenant ? "&tenant=" + encodeURIComponent(job.tenant) : "");
}

// ---- what is shown

function showJobs(jobs) {
    const make = () => {
        const made = row(6);
        const button = made.children[0].appendChild(element("button"));
        button.onclick = () => choose(made.job);
        return made;
    };
    fill(byId("jobs"), jobs, make, (line, job) => {
        const cells = line.children;
        line.job = job;
        put(line, "className", isChosen(job) ? "chosen" : "");
        put(cells[0].firstChild, "textContent", titleOf(job));
        put(cells[1], "textContent", job.state);
        put(cells[2], "textContent", job.round < 0 ? "none" : String(job.round));
        put(cells[3], "textContent", String(job.node_count));
        put(cells[4], "textContent", job.restarts.used + " of " + job.restarts.max);
        put(cells[5], "textContent", job.reason);
    });
}

function nameOf(node) {
    const ranks = !node.ranks ? "" : node.ranks[0] === node.ranks[1] ? ", rank " + node.ranks[0] : ", ranks " + node.ranks[0] + "-" + node.ranks[1];
    return node.host + ranks;
}

function describe(node) {
    const steps = node.progress.filter((worker) => worker.step !== null).map((worker) => worker.step);
    const step = steps.length ? ", step " + Math.min(...steps) : "";
    return nameOf(node) + ": " + node.state + step + (node.reason ? ": " + node.reason : "");
}

function waitText(wait, nodes) {
    const first = parseInt(wait.ranks, 10);
    const node = nodes.find((each) => each.ranks && each.ranks[0] <= first && first <= each.ranks[1]);
    const many = /[-,]/.test(wait.ranks);
    const more = wait.more_keys ? " and " + wait.more_keys + " more" : "";
    return (many ? "ranks " : "rank ") + wait.ranks + (node && !many ? ", " + node.host : "") + ": key " + wait.key + more + ", " +
        Math.round(wait.since_s) + " s" + (wait.missing ? "; " + wait.missing : "");
}

function showJob(job) {
    put(byId("name"), "textContent", "Job " + titleOf(job));
    put(byId("state"), "textContent", job.state + (job.reason ? ": " + job.reason : ""));
    const verdicts = [];
    if (job.root_cause) verdicts.push("root cause: " + job.root_cause);
    if (job.hang) verdicts.push("hang: " + job.hang);
    if (job.store_wait) verdicts.push("wait: " + waitText(job.store_wait, job.nodes));
    for (const host of job.drained_hosts) verdicts.push("drained: " + host.host + ": " + host.reason);
    fillTexts(byId("verdicts"), verdicts);
    showLedger(job.goodput);
    showNodes(job);
}

function showLedger(goodput) {
    const phases = phasesOf(goodput.seconds);
    fillBar(byId("bar"), phases);
    const parts = phases.map((phase) => ({kind: phase.name, text: phase.name + " " + length(phase.seconds) + " (" + phase.part.toFixed(1) + " %)"}));
    const step = goodput.step === null ? "" : ", step " + goodput.step;
    parts.unshift({kind: "", text: length(goodput.wall_s) + step + (goodput.phase ? ", now " + goodput.phase : "")});
    const make = () => {
        const made = element("span");
        made.append(element("b"), element("u"));
        made.lastChild.style.textDecoration = "none";
        return made;
    };
    fill(byId("ledger"), parts, make, (item, part) => {
        put(item.firstChild, "className", part.kind);
        put(item.firstChild, "hidden", !part.kind);
        put(item.lastChild, "textContent", part.text);
    });
}

function showNodes(job) {
    fill(byId("grid"), job.nodes, () => element("i"), (cell, node) => {
        put(cell, "className", node.state);
        put(cell, "title", describe(node));
    });
    const left = job.node_count - job.nodes.length;
    put(byId("more"), "textContent", left > 0 ? "and " + left + " more nodes" : "");
    const all = job.nodes.length <= mostNotes;
    const notable = job.nodes.filter((node) => all || node.reason);
    const texts = notable.slice(0, mostNotes).map(describe);
    if (notable.length > mostNotes) texts.push("and " + (notable.length - mostNotes) + " more with a reason");
    fillTexts(byId("notes"), texts);
}

function showRounds(timeline) {
    const older = timeline.older;
    const newest = timeline.rounds.slice(-mostRounds).reverse();
    const hidden = older.rounds + timeline.rounds.length - newest.length;
    const causes = Object.entries(older.by_cause).map(([cause, count]) => cause + " " + count);
    put(byId("older"), "textContent", hidden ? hidden + " older rounds" + (causes.length ? ", among them " + causes.join(", ") : "") : "");
    const make = () => {
        const made = row(5);
        made.children[3].append(element("div", "bar"));
        return made;
    };
    fill(byId("rounds"), newest, make, (line, round) => {
        const cells = line.children;
        const ended = round.end_s !== null;
        put(cells[0], "textContent", String(round.number));
        put(cells[1], "textContent", "+" + length(round.begin_s));
        put(cells[2], "textContent", ended ? length(round.end_s - round.begin_s) : "current");
        fillBar(cells[3].firstChild, ended ? phasesOf(round.seconds) : []);
        put(cells[4], "textContent", !ended ? "" : round.cause === null ? "no failure" : round.root_cause);
    });
}

// ---- what is read

function report(text, isBad) {
    put(byId("link"), "textContent", text);
    put(byId("link"), "className", isBad ? "bad" : "");
}

const read = (path) => fetch(path, {signal: AbortSignal.timeout(answerMs)});

/// Null: no such job.
async function readJson(path) {
    const answer = await read(path);
    if (answer.status === 404) return null;
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
}

async function readAll() {
    const list = await readJson("status?from=" + noNodes);
    if (chosen === null && list.jobs.length) chosen = list.jobs[list.jobs.length - 1];
    if (chosen === null) return {list, job: null, timeline: null};
    const query = queryOf(chosen);
    const [job, timeline] = await Promise.all([readJson("status?" + query), readJson("timeline?" + query)]);
    return {list, job: job && job.jobs[job.jobs.length - 1], timeline};
}

function show({list, job, timeline}) {
    const begin = performance.now();
    showJobs(list.jobs);
    const isGone = chosen !== null && !job;
    put(byId("detail"), "hidden", !job);
    if (job) showJob(job);
    const text = JSON.stringify(timeline);
    if (timeline && text !== shownTimeline) showRounds(timeline);
    shownTimeline = text;
    report(isGone ? "job " + titleOf(chosen) + " is gone" : list.jobs.length ? "ddprun " + list.version : "ddprun " + list.version + ", no jobs", isGone);
    document.body.getBoundingClientRect();  // the layout is part of the update
    document.body.dataset.updateMs = (performance.now() - begin).toFixed(1);
}

async function poll() {
    if (polling) return;
    polling = true;
    clearTimeout(timer);
    const wanted = chosen;
    try {
        const answer = await readAll();
        if (wanted === null || wanted === chosen) show(answer);
    } catch (failure) {
        report("no answer from the server: " + failure.message, true);
    }
    polling = false;
    const isOutdated = wanted !== null && wanted !== chosen;
    timer = setTimeout(poll, isOutdated ? 0 : document.hidden ? hiddenMs : shownMs);
}

function choose(job) {
    chosen = job;
    history.replaceState(null, "", "#" + queryOf(job));
    poll();
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
// The first paint does not wait for data; a hidden page has no frames.
if (document.hidden) poll();
else requestAnimationFrame(() => setTimeout(poll));
