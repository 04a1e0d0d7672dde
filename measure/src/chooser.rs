//! Which of several estimates to report.
