//! The manifests that ship with Toolgate, used by the profile `proxy` when the configuration names none.

macro_rules! shipped {
    ($($name:literal)*) => {
        /// File names and contents, in the order in which tools are listed.
        pub const SHIPPED: &[(&str, &str)] = &[
            $((concat!("tools.d/", $name, ".yaml"), include_str!(concat!("../../../../tools.d/", $name, ".yaml"))),)*
        ];
    };
}

shipped! {
    "list_files" "read_file" "search_code" "git_log" "git_diff" "git_show_file" "echo_message"
}
