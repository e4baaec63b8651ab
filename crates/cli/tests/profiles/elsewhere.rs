//! What belongs to no profile: texts of commands, `serve`, secrets in configurations.
