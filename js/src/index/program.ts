// A program laid out flat: its equations in program order, with who defines and who uses each variable.
import type { Equation, Program, Region, Variable } from "../protocol";

/** A region and where it lies in the flat order. */
export interface Place {
  readonly region: Region;
  /** Flat number of the equation that holds it, -1 for the whole program. */
  readonly owner: number;
  readonly parent: number;
  readonly depth: number;
  /** Flat numbers of its own equations, without those of inner regions. */
  readonly equations: readonly number[];
}

export interface ProgramIndex {
  readonly program: Program;
  readonly equations: readonly Equation[];
  /** Region each equation stands in. */
  readonly regionOf: readonly number[];
  readonly places: readonly Place[];
  /** Regions an equation holds. */
  readonly inner: ReadonlyMap<number, readonly number[]>;
  readonly variables: ReadonlyMap<number, Variable>;
  /** Equation that defines a variable; inputs of regions have none. */
  readonly definedBy: ReadonlyMap<number, number>;
  readonly usedBy: ReadonlyMap<number, readonly number[]>;
  /** Region a variable comes into. */
  readonly inputOf: ReadonlyMap<number, number>;
  /** Region a variable is returned from. */
  readonly outputOf: ReadonlyMap<number, number>;
}

/** With a label for each variable. */
export interface NamedProgram extends ProgramIndex {
  /** The user's name, numbered where it repeats, or a letter. */
  readonly names: ReadonlyMap<number, string>;
}

type Building = { -readonly [K in keyof ProgramIndex]: Mutable<ProgramIndex[K]> };
type Mutable<T> =
  T extends ReadonlyMap<infer K, infer V>
    ? Map<K, V extends readonly (infer E)[] ? E[] : V>
    : T extends readonly (infer E)[]
      ? E[]
      : T;

/** One pass over the program, linear in its equations. */
export function indexProgram(program: Program): ProgramIndex {
  const index: Building = {
    program,
    equations: [],
    regionOf: [],
    places: [],
    inner: new Map(),
    variables: new Map(),
    definedBy: new Map(),
    usedBy: new Map(),
    inputOf: new Map(),
    outputOf: new Map(),
  };
  addRegion(index, program.root, -1, -1, 0);
  return index;
}

function addRegion(index: Building, region: Region, owner: number, parent: number, depth: number): number {
  const id = index.places.length;
  const own: number[] = [];
  index.places.push({ region, owner, parent, depth, equations: own });
  for (const variable of [...region.constants, ...region.inputs]) {
    index.variables.set(variable.id, variable);
    index.inputOf.set(variable.id, id);
  }
  for (const output of region.outputs) if (typeof output === "number") index.outputOf.set(output, id);
  for (const equation of region.equations) own.push(addEquation(index, equation, id, depth));
  return id;
}

function addEquation(index: Building, equation: Equation, region: number, depth: number): number {
  const at = index.equations.push(equation) - 1;
  index.regionOf.push(region);
  for (const operand of equation.ins) if (typeof operand === "number") noteUse(index, operand, at);
  for (const out of equation.outs) {
    index.variables.set(out.id, out);
    index.definedBy.set(out.id, at);
  }
  if (equation.regions.length) {
    index.inner.set(
      at,
      equation.regions.map(inner => addRegion(index, inner, at, region, depth + 1)),
    );
  }
  return at;
}

function noteUse(index: Building, variable: number, equation: number): void {
  const uses = index.usedBy.get(variable);
  if (!uses) index.usedBy.set(variable, [equation]);
  else if (uses[uses.length - 1] !== equation) uses.push(equation);
}

const indexes = new WeakMap<Program, ProgramIndex>();

/** The index of a program, made once. */
export function programIndex(program: Program): ProgramIndex {
  let index = indexes.get(program);
  if (!index) {
    index = indexProgram(program);
    indexes.set(program, index);
  }
  return index;
}

export function operandLabel(index: NamedProgram, operand: number | string): string {
  return typeof operand === "string" ? operand : (index.names.get(operand) ?? `v${operand}`);
}
