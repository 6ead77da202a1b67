// Package scalers is three unmodified files of KEDA, laid over this folder at build time, and what they need of the
// sixty others of theirs.
package scalers

const externalMetricType = "External"
