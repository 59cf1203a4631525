// What stands in place of the panel where there is no report to show.
export function Notice({ message, advice }: { message: string; advice: string }) {
  return (
    <div class="panel notice" role="status">
      <p>{message}</p>
      <p class="quiet">{advice}</p>
    </div>
  );
}
