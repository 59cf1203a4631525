import { describe, expect, test } from "vitest";
import { Findings } from "../src/views/findings";
import { List } from "../src/views/list";
import { Notice } from "../src/views/notice";
import { ALL, lineOf, recorded } from "./records";
import { button, click, press, render, renderPanel, shownOf, texts, type } from "./render";

describe("every sample report", () => {
  const tabs = ["overview", "transform", "transfer", "output"] as const;
  test.each(ALL.flatMap(name => tabs.map(tab => [name, tab] as const)))("%s opens at %s", async (name, tab) => {
    const root = await renderPanel(recorded(name), { tab });
    expect(root.querySelector("[role=alert]")).toBeNull();
    expect(root.querySelector("[role=tabpanel]")?.textContent).not.toBe("");
  });
});

describe("the header", () => {
  test.each([
    ["mlp", "finished"],
    ["failed", "failed"],
    ["interrupted", "interrupted"],
    ["running", "was running when saved"],
  ] as const)("of %s says %s in words", async (name, word) => {
    const root = await renderPanel(recorded(name));
    expect(root.querySelector("[aria-live]")?.textContent).toContain(word);
  });

  test("says running only while a kernel is there", async () => {
    const root = await renderPanel(recorded("running"), {}, true);
    expect(root.querySelector("[aria-live]")?.textContent?.trim()).toBe("◌ running");
  });
});

describe("the tabs", () => {
  test("are one stop for the keyboard, with arrows inside", async () => {
    const root = await renderPanel(recorded("mlp"));
    expect(texts(root, "[role=tab][tabindex='0']")).toEqual(["Overview"]);
    await press(root.querySelector("[role=tablist]"), "ArrowRight");
    expect(root.querySelector("[aria-selected=true][role=tab]")?.id).toBe("tab-transform");
    await press(root.querySelector("[role=tablist]"), "ArrowLeft");
    await press(root.querySelector("[role=tablist]"), "ArrowLeft");
    expect(root.querySelector("[aria-selected=true][role=tab]")?.id).toBe("tab-output");
  });

  test("have Transfer only where something was tapped", async () => {
    expect(texts(await renderPanel(recorded("mlp")), "[role=tab]").join()).not.toContain("Transfer");
    expect(texts(await renderPanel(recorded("taps")), "[role=tab]").join()).toContain("Transfer");
  });
});

describe("the source", () => {
  test("shows each variable after its line", async () => {
    const root = await renderPanel(recorded("mlp"));
    const line = [...root.querySelectorAll(".line")].find(each => each.textContent?.includes("h = jax.nn.relu"));
    expect(texts(line as Element, ".hint")).toEqual(["h f32[32,256]"]);
  });

  test("opens a line to its expressions and goes on to the program", async () => {
    const root = await renderPanel(recorded("mlp"));
    await click(root.querySelectorAll(".line .number")[lineOf(recorded("mlp"), "h = jax.nn.relu") - 1]);
    expect(root.querySelector(".peek")?.textContent).toContain('x @ params["w1"]');
    await click(button(root, "step: "));
    expect(root.querySelector("[aria-selected=true][role=tab]")?.id).toBe("tab-transform");
    expect(root.querySelectorAll(".row.lit").length).toBeGreaterThan(0);
  });

  test("shows the value of what is under the pointer", async () => {
    const root = await renderPanel(recorded("mlp"));
    const piece = [...root.querySelectorAll<HTMLElement>(".line [data-at]")].find(each => each.textContent === " @ ");
    piece?.dispatchEvent(new MouseEvent("mousemove", { bubbles: true }));
    await new Promise(done => setTimeout(done));
    expect(root.querySelector("[role=tooltip]")?.textContent).toContain("f32[32,256]");
  });

  test("lets one choose between the ways a function ran", async () => {
    const root = await renderPanel(recorded("retraces"));
    const before = texts(root, ".hint").join();
    await click(root.querySelector("[aria-label='next call of scale']"));
    expect(root.querySelector(".variants [aria-live]")?.textContent).toBe("2/4");
    expect(texts(root, ".hint").join()).not.toBe(before);
  });
});

describe("a failure", () => {
  test("stands first, with the failing expression underlined and its operands", async () => {
    const root = await renderPanel(recorded("failed"));
    expect(root.querySelector("[role=tabpanel] section")?.classList).toContain("failure");
    expect(texts(root, ".failing-line .mark")).toEqual(["x @ w"]);
    expect(texts(root, ".operands tbody th")).toEqual(["x", "w"]);
  });

  test("that was an interrupt is not called an error", async () => {
    const root = await renderPanel(recorded("interrupted"));
    expect(root.querySelector(".failure h3")?.textContent).toContain("Interrupted");
    expect(root.querySelector(".failure h3")?.textContent).not.toContain("KeyboardInterrupt");
  });
});

describe("findings", () => {
  test("say their severity in words and offer the fix", async () => {
    const { findings } = recorded("findings");
    const { shown } = shownOf(recorded("findings"));
    const root = await render(<Findings findings={findings} shown={shown} />);
    expect(root.textContent).toContain("Wrong result");
    expect(root.querySelectorAll("button[aria-label='Copy the fix']").length).toBe(
      findings.filter(each => each.fix).length,
    );
  });

  test("lead to their line", async () => {
    const { findings } = recorded("findings");
    const { shown, actions } = shownOf(recorded("findings"));
    const root = await render(<Findings findings={findings.slice(0, 1)} shown={shown} />);
    await click(root.querySelector(".where"));
    expect(actions).toMatchObject([{ type: "line", line: findings[0]?.span?.line }]);
  });
});

describe("the ledger", () => {
  test("folds libraries away until asked", async () => {
    const report = recorded("mlp");
    const [step] = report.compiled;
    if (!step) throw new Error("the sample has a function");
    const compiled = [step, { ...step, id: 99, name: "_normal", library: true }];
    const root = await renderPanel({ ...report, compiled });
    expect(texts(root, ".ledger .opener bdi")).toEqual(["step"]);
    await click(button(root, "library function"));
    expect(texts(root, ".ledger .opener bdi")).toEqual(["step", "_normal"]);
  });

  test("opens a function to its traces, each with its reason", async () => {
    const root = await renderPanel(recorded("retraces"));
    await click(root.querySelector(".ledger .opener"));
    expect(texts(root, ".reason")).toHaveLength(5);
    expect(texts(root, ".traced")[1]).toMatch(/f32\[8\] → f32\[9\]/);
  });

  test("says which column it is sorted by", async () => {
    const root = await renderPanel(recorded("retraces"));
    await click(button(root, "Seconds"));
    expect(root.querySelector("th[aria-sort]")?.getAttribute("aria-sort")).toBe("descending");
  });
});

describe("the program", () => {
  test("selects the same thing in list, source and graph", async () => {
    const root = await renderPanel(recorded("mlp"), { tab: "transform" });
    await click(root.querySelector(".row.equation"));
    expect(root.querySelectorAll(".row.lit")).toHaveLength(1);
    expect(root.querySelectorAll(".line.lit")).toHaveLength(1);
    expect(root.querySelectorAll(".node.lit")).toHaveLength(1);
    expect(root.querySelector(".inspector")?.textContent).toContain("dot_general");
  });

  test("is walked with the arrow keys", async () => {
    const root = await renderPanel(recorded("mlp"), { tab: "transform" });
    const list = root.querySelector("[role=tree]");
    await press(list, "ArrowDown");
    await press(list, "ArrowDown");
    expect(list?.getAttribute("aria-activedescendant")).toBe("row-1");
    expect(root.querySelector("#row-1")?.getAttribute("aria-selected")).toBe("true");
  });

  test("folds a region with its caret and with a key", async () => {
    const root = await renderPanel(recorded("mlp"), { tab: "transform" });
    const rows = root.querySelectorAll(".row").length;
    await press(root.querySelector("[role=tree]"), "ArrowDown");
    await press(root.querySelector("[role=tree]"), "ArrowLeft");
    expect(root.querySelectorAll(".row").length).toBeLessThan(rows);
    await click(root.querySelector(".row.region .caret"));
    expect(root.querySelectorAll(".row").length).toBe(rows);
  });

  test("is searched, and Enter goes from match to match", async () => {
    const root = await renderPanel(recorded("mlp"), { tab: "transform" });
    const input = root.querySelector("input[type=search]");
    await type(input, "dot_general");
    expect(root.querySelectorAll(".row.hit").length).toBeGreaterThan(1);
    await press(input, "Enter");
    expect(root.querySelector(".search [role=status]")?.textContent).toMatch(/^1 of \d+$/);
  });

  test("shows what XLA made of it, a kernel linked to its lines", async () => {
    const root = await renderPanel(recorded("mlp"), { tab: "transform", stage: "hlo", closed: ["source"] });
    const rows = [...root.querySelectorAll(".row.instruction")];
    await click(rows.find(row => row.querySelector(".at")?.textContent));
    expect(root.querySelector(".inspector .where")).not.toBeNull();
  });

  test("where nothing was traced is a sentence", async () => {
    const root = await renderPanel(recorded("plainPython"), { tab: "transform" });
    expect(root.querySelector("[role=tabpanel]")?.textContent).toContain("traced no function");
  });
});

describe("the output", () => {
  test("has the printed lines in order, and the result", async () => {
    const report = recorded("mlp");
    const root = await renderPanel(report, { tab: "output" });
    expect(texts(root, ".printed code")).toEqual(report.printed.map(each => each.text));
    expect(texts(root, "pre")).toEqual(report.results);
  });

  test("of two runs is a table", async () => {
    const report = recorded("comparison");
    const root = await renderPanel(report, { tab: "output" });
    expect(root.querySelectorAll(".comparison tbody tr")).toHaveLength(report.comparison?.differences.length ?? 0);
  });
});

describe("a cell", () => {
  test.each([
    ["empty", "The cell is empty"],
    ["plainPython", "No JAX in this cell"],
  ] as const)("that is %s says so", async (name, text) => {
    expect((await renderPanel(recorded(name))).textContent).toContain(text);
  });
});

describe("a long list", () => {
  test("has only the rows in sight", async () => {
    const root = await render(
      <List label="all" role="list" count={100_000} rowHeight={20} row={at => <p key={at}>{at}</p>} />,
    );
    expect(root.querySelectorAll("p").length).toBeLessThan(80);
    expect(root.querySelector<HTMLElement>(".all-rows")?.style.height).toBe("2000000px");
  });
});

test("hostile names make no element and run no script", async () => {
  for (const tab of ["overview", "transform", "transfer", "output"] as const) {
    const root = await renderPanel(recorded("hostile"), { tab });
    expect(root.querySelectorAll("img, script, iframe, td > script")).toHaveLength(0);
    expect(root.textContent).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    for (const element of root.querySelectorAll("*")) {
      for (const { name } of element.attributes) expect(name).not.toMatch(/^on/);
    }
  }
});

test("an unreadable payload is a sentence and what to do", async () => {
  const root = await render(<Notice message="Saved by jaxmagic 9.9." advice="Run the cell again." />);
  expect(root.querySelector("[role=status]")?.textContent).toContain("Run the cell again.");
});
