// The order in which diagnoses deserve to be read.
import type { Finding, Report } from "./protocol";

export type Severity = Finding["severity"];

const ORDER: readonly Severity[] = ["error", "wrong-result", "slow", "note"];

/** All findings, those of the failure included, most severe first. */
export function allFindings(report: Report): Finding[] {
  return [...(report.failure?.findings ?? []), ...bySeverity(report.findings)];
}

export function bySeverity(findings: readonly Finding[]): Finding[] {
  return [...findings].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
}

export function worst(findings: readonly Finding[]): Severity | undefined {
  return bySeverity(findings)[0]?.severity;
}
