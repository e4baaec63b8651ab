use toolgate_audit::*; use toolgate_types::*;
fn main(){ let caller=Caller{subject:"alice".to_owned(),permissions:["files:read".to_owned()].into(),agent:None,session:"bench".parse().unwrap(),run:None,trust:Trust::Guided};
let e=Entry{call:CallId::fresh(),client_call_id:Some("call_1"),caller:&caller,tool:"read_file",class:Some(ToolClass::Read),args_hash:Sha256::of(b"{}"),denial:None,response:None,duration:std::time::Duration::from_micros(1234)};
for _ in 0..3 {probe(&e);} }
