"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);

  // ---- tables: sort by a click on a heading, filter by text

  for (const section of document.querySelectorAll("section.table")) {
    const body = section.querySelector("tbody");
    const headings = [...section.querySelectorAll("th")];
    const value = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
    };
    headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
      const first = heading.classList.contains("l") ? "ascending" : "descending";
      const order = heading.getAttribute("aria-sort") === first ? (first === "ascending" ? "descending" : "ascending") : first;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        if ((x === "") !== (y === "")) return x === "" ? 1 : -1;  // what is absent comes last
        return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
      });
      body.append(...rows);
    }));
    const filter = section.querySelector("input");
    if (filter) filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) {
        const text = [...row.cells].map((cell) => cell.title + " " + cell.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }
  if (!data.timeline) return;

  // ---- numbers

  const seconds = (t) => `${+t.toFixed(6)} s`;
  const count = (n) => n.toLocaleString("en");
  const short = (n) => n >= 1e6 ? `${+(n / 1e6).toFixed(2)}M` : n >= 1e4 ? `${+(n / 1e3).toFixed(1)}k` : String(+n.toFixed(2));
  const latency = (ms) => ms == null ? "" : ms >= 1e3 ? `${+(ms / 1e3).toPrecision(3)} s` : ms >= 1 ? `${+ms.toPrecision(3)} ms` : `${+(ms * 1e3).toPrecision(3)} µs`;

  // ---- charts: one zoom for all

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const whole = [0, Math.max(data.end, 1e-6)];
  whole[0] = Math.min(0, ...data.throughput.t.slice(0, 1));
  const slack = (whole[1] - whole[0]) * 0.01;
  whole[0] -= slack;
  whole[1] += slack;
  let range = [...whole];
  let charts = [];
  let propagating = false;

  function zoom(from, to) {
    const width = Math.min(Math.max(to - from, 2e-6), whole[1] - whole[0]);
    const start = Math.min(Math.max(from, whole[0]), whole[1] - width);
    range = [start, start + width];
    propagating = true;
    for (const chart of charts) chart.setScale("x", { min: range[0], max: range[1] });
    propagating = false;
    document.documentElement.dataset.zoom = `${range[0]} ${range[1]}`;
  }
  const zooms = {
    in: (width) => zoom(range[0] + width / 4, range[1] - width / 4),
    out: (width) => zoom(range[0] - width / 2, range[1] + width / 2),
    left: (width) => zoom(range[0] - width / 2, range[1] - width / 2),
    right: (width) => zoom(range[0] + width / 2, range[1] + width / 2),
    all: () => zoom(...whole),
  };
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zooms[button.dataset.zoom](range[1] - range[0]));
  for (const button of document.querySelectorAll(".jump")) button.addEventListener("click", () => {
    const width = (whole[1] - whole[0]) / 20;
    zoom(button.dataset.t - width / 2, +button.dataset.t + width / 2);
    byId("traffic").scrollIntoView({ behavior: "smooth" });
  });

  function marks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    for (const mark of data.marks) {
      const x = u.valToPos(mark.t, "x", true);
      if (mark.severity === "note" || x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.fillStyle = color(mark.severity);
      ctx.globalAlpha = 0.55;
      ctx.fillRect(Math.round(x), bbox.top, devicePixelRatio, bbox.height);
    }
    ctx.restore();
  }

  function chart(element, height, columns, series, options = {}) {
    const axis = { stroke: () => color("dim"), grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const left = options.left ?? 56;
    const u = new uPlot({
      width: Math.max(element.clientWidth, 200), height,
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, ...options.scales },
      axes: [
        { ...axis, space: 70, size: 26, values: (_, ticks) => ticks.map((t) => `${+t.toFixed(9)} s`) },
        { ...axis, size: left, ...options.axis },
      ],
      legend: { show: options.legend ?? true, live: true },
      cursor: { drag: { x: true, y: false, setScale: true }, points: { size: 5 }, bind: { dblclick: () => () => { zoom(...whole); return null; } }, ...options.cursor },
      series: [{ label: "at", value: (_, t) => t == null ? "" : seconds(t) }, ...series],
      hooks: {
        setScale: [(self, key) => { if (key === "x" && !propagating && self.ready) zoom(self.scales.x.min, self.scales.x.max); }],
        draw: [...(options.draw ? [options.draw] : []), marks],
        ...options.hooks,
      },
    }, columns, element);
    u.ready = true;
    charts.push(u);
    return u;
  }
  const line = (label, name, extra = {}) => ({ label, stroke: () => color(name), width: 1.5, points: { show: false }, value: (_, v) => v == null ? "" : short(v), ...extra });

  // ---- the timeline: a lane for each connection, client frames above its line, server frames below

  const LANES = 25;
  const KINDS = [["sent", "messages sent"], ["delivered", "delivered"], ["client", "other, of clients"], ["server", "of servers"], ["broken", "malformed"]];
  const timeline = data.timeline;
  let lanesShown = Math.min(timeline.lanes.length, LANES);
  const laneHeight = () => Math.min(Math.max(110 / lanesShown, 22), 44);

  function drawTimeline(u) {
    const { ctx, bbox } = u;
    const lane = bbox.height / lanesShown;
    const pen = Math.max(1, Math.round(1.5 * devicePixelRatio));
    const colors = KINDS.map(([name]) => color(name));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = color("line");
    for (let each = 0; each < lanesShown; each++) ctx.fillRect(bbox.left, Math.round(bbox.top + (each + 0.5) * lane), bbox.width, 1);
    for (const pass of [2, 3, 0, 1, 4]) {
      ctx.fillStyle = colors[pass];
      for (let i = 0; i < timeline.t.length; i++) {
        if (timeline.kind[i] !== pass || timeline.lane[i] >= lanesShown || timeline.t[i] < range[0] || timeline.t[i] > range[1]) continue;
        const x = Math.round(u.valToPos(timeline.t[i], "x", true));
        const tall = lane * (0.26 + 0.16 * Math.min(Math.log10(timeline.frames[i]) / 3, 1));
        const middle = bbox.top + (timeline.lane[i] + 0.5) * lane;
        const up = pass === 0 || pass === 2;
        ctx.fillRect(x, up ? middle - tall : middle + 1, pen, tall);
      }
    }
    ctx.restore();
  }

  function laneLabel(place, wide) {
    const lane = timeline.lanes[place];
    if (!lane) return "";
    const server = lane.server.slice(lane.server.lastIndexOf(":"));
    return wide && lane.client ? `${lane.name}  ${lane.client} → ${server}` : lane.name;
  }

  function makeTimeline() {
    const element = byId("timeline");
    if (!timeline.lanes.length) { element.closest("figure").hidden = true; return; }
    const wide = element.clientWidth > 700;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    const u = chart(element, lanesShown * laneHeight() + 30, [whole, [null, null]], [{ show: true, paths: () => null, points: { show: false } }], {
      left: wide ? 230 : 62, legend: false, draw: drawTimeline,
      scales: { y: { auto: false, range: [0, lanesShown], dir: -1 } },
      axis: {
        grid: { show: false },
        splits: () => [...Array(lanesShown).keys()].map((each) => each + 0.5),
        values: (_, splits) => splits.map((at) => { const text = laneLabel(Math.floor(at), wide); return text.length > 36 ? text.slice(0, 18) + "…" + text.slice(-16) : text; }),
      },
      cursor: { y: false, points: { show: false } },
      hooks: {
        setCursor: [(self) => {
          const { left, top } = self.cursor;
          tip.hidden = true;
          if (left < 0) return;
          const lane = Math.floor(self.posToVal(top, "y"));
          const t = self.posToVal(left, "x");
          let best = -1;
          let distance = (range[1] - range[0]) * 6 / self.over.clientWidth;
          for (let i = 0; i < timeline.t.length; i++) {
            const away = Math.abs(timeline.t[i] - t);
            if (timeline.lane[i] === lane && away <= distance) { best = i; distance = away; }
          }
          if (best < 0) return;
          const parts = [timeline.commands[timeline.command[best]]];
          if (timeline.frames[best] > 1) parts.push(`${count(timeline.frames[best])} frames`);
          if (timeline.messages[best]) parts.push(`${count(timeline.messages[best])} messages`);
          if (timeline.ms[best] != null) parts.push(`after ${latency(timeline.ms[best])}`);
          const ends = timeline.lanes[lane];
          tip.textContent = `${parts.join(", ")} — at ${seconds(timeline.t[best])}, frame ${timeline.frame[best]}, connection ${ends.name} ${ends.client} → ${ends.server}`;
          tip.hidden = false;
          const box = self.over.parentNode;
          tip.style.left = `${Math.min(left + self.over.offsetLeft + 12, Math.max(box.clientWidth - 330, 0))}px`;
          tip.style.top = `${top + self.over.offsetTop + 18}px`;
        }],
      },
    });
    u.over.parentNode.append(tip);
    const more = byId("lanes-more");
    more.hidden = lanesShown >= timeline.lanes.length;
    more.textContent = `Show all ${timeline.lanes.length} connections`;
  }
  byId("lanes-more").addEventListener("click", () => { lanesShown = timeline.lanes.length; makeAll(); });
  const used = new Set(timeline.kind);
  for (const [place, [name, label]] of KINDS.entries()) if (used.has(place)) {
    const box = document.createElement("i");
    box.className = name;
    byId("kinds").append(box, label);
  }

  // ---- throughput and latencies

  function makeThroughput() {
    const element = byId("throughput");
    const { t, width, client_messages: sent, server_messages: delivered } = data.throughput;
    if (!t || !t.length) { element.closest("figure").hidden = true; return; }
    const stepped = uPlot.paths.stepped({ align: 1 });
    const rate = (column) => column.map((n) => n / width);
    const fill = (name) => () => `color-mix(in srgb, ${color(name)} 12%, transparent)`;
    chart(element, 190, [t, rate(sent), rate(delivered)], [
      line("sent", "sent", { paths: stepped, fill: fill("sent") }),
      line("delivered", "delivered", { paths: stepped, fill: fill("delivered") }),
    ], { scales: { y: { range: (_, min, max) => [0, Math.max(max * 1.08, 1)] } }, axis: { values: (_, ticks) => ticks.map(short) } });
  }

  const request = byId("request");
  for (const [place, each] of data.latency.entries()) request.add(new Option(`${each.request} (${count(each.count)})`, place));
  request.addEventListener("change", () => makeAll());

  function makeLatency() {
    const element = byId("latency");
    const chosen = data.latency[request.value || 0];
    if (!chosen) { element.closest("figure").hidden = byId("histogram").closest("figure").hidden = true; return; }
    const dots = { show: true, size: 4 };
    const few = chosen.t.length < 60;
    const part = (name, hue) => line(name, hue, { value: (_, v) => latency(v), spanGaps: false, points: few ? dots : { show: false } });
    const all = [...chosen.p50, ...chosen.max].filter((ms) => ms > 0);
    const bounds = [10 ** Math.floor(Math.log10(Math.min(...all, 1e3))), 10 ** Math.ceil(Math.log10(Math.max(...all, 1e-3) * 1.01))];
    chart(element, 190, [chosen.t, ...[chosen.p50, chosen.p99, chosen.max].map((column) => column.map((ms) => ms > 0 ? ms : null))],
      [part("p50", "sent"), part("p99", "delivered"), part("max", "broken")],
      { scales: { y: { distr: 3, range: () => bounds } }, axis: { values: (_, ticks) => ticks.map((ms) => ms && Number.isInteger(+Math.log10(ms).toFixed(6)) ? latency(ms) : "") } });
    const bars = byId("histogram");
    const most = Math.max(...chosen.octaves.map((octave) => octave[2]), 1);
    bars.className = "bars";
    bars.replaceChildren(...chosen.octaves.flatMap(([from, to, n]) => {
      const [label, number] = [document.createElement("span"), document.createElement("span")];
      label.textContent = `${latency(from)} – ${latency(to)}`;
      number.textContent = `${count(n)} · ${(n * 100 / chosen.count).toFixed(n * 100 < chosen.count ? 1 : 0)} %`;
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      svg.setAttribute("viewBox", "0 0 100 12");
      svg.setAttribute("preserveAspectRatio", "none");
      bar.setAttribute("width", n ? Math.max(n * 100 / most, 0.3) : 0);
      bar.setAttribute("height", 12);
      svg.append(bar);
      return [label, svg, number];
    }));
    byId("histogram-note").textContent = `of ${count(chosen.count)} ${chosen.request}`;
  }

  // ---- consumers: permits and unacknowledged messages

  const COURSES = 6;
  const LINES = { permits_left: ["permits", "sent"], unacknowledged: ["unacknowledged", "warning"] };
  let coursesShown = Math.min(data.courses.length, COURSES);

  function makeCourses() {
    const place = byId("courses");
    if (!place) return;
    place.replaceChildren();
    for (const course of data.courses.slice(0, coursesShown)) {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const about = document.createElement("small");
      const element = document.createElement("div");
      const last = (name) => (course.lines[name] || []).at(-1);
      caption.textContent = `${course.subscription ?? "(unknown subscription)"} · ${course.consumer}`;
      about.textContent = [course.topic, course.type, course.state, last("delivered") == null ? "" : `${count(last("delivered"))} delivered, ${count(last("acknowledged"))} acknowledged`].filter(Boolean).join(" · ");
      caption.append(about);
      element.className = "chart";
      figure.append(caption, element);
      place.append(figure);
      const names = Object.keys(LINES).filter((name) => name in course.lines && course.lines[name].some((n) => n != null));
      if (!course.t.length || !names.length) continue;
      const end = data.end > course.t.at(-1) ? [data.end] : [];
      const columns = [[...course.t, ...end], ...names.map((name) => [...course.lines[name], ...end.map(() => course.lines[name].at(-1))])];
      chart(element, 150, columns, names.map((name) => line(LINES[name][0], LINES[name][1], { paths: uPlot.paths.stepped({ align: 1 }), value: (_, n) => n == null ? "" : count(n) })),
        { scales: { y: { range: (_, min, max) => [Math.min(min ?? 0, 0), Math.max((max ?? 0) * 1.08, 1)] } }, left: 48, axis: { values: (_, ticks) => ticks.map(short) } });
    }
    const more = byId("courses-more");
    more.hidden = coursesShown >= data.courses.length;
    more.textContent = `Show all ${data.courses.length} consumers`;
    more.onclick = () => { coursesShown = data.courses.length; makeAll(); };
  }

  function makeAll() {
    for (const each of charts) each.destroy();
    charts = [];
    makeTimeline();
    makeThroughput();
    makeLatency();
    makeCourses();
    zoom(...range);
  }
  makeAll();

  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", makeAll);
  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(makeAll, 150);
  });
})();
