//! The manifests that come with Toolgate, as the profile `proxy` uses them when the configuration names no others.

macro_rules! shipped {
    ($($name:literal)*) => {
        /// Files and their content, in the order in which tools are shown.
        pub const SHIPPED: &[(&str, &str)] = &[
            $((concat!("tools.d/", $name, ".yaml"), include_str!(concat!("../../../../tools.d/", $name, ".yaml"))),)*
        ];
    };
}

shipped! {
    "list_files" "read_file" "search_code" "git_log" "git_diff" "git_show_file" "echo_message"
}
