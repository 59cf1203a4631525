// What esbuild makes of two kinds of import: text.
declare module "inline:*" {
  const source: string;
  export default source;
}

declare module "*.css" {
  const text: string;
  export default text;
}
