//! Compiles what Postbox says to a RocketMQ proxy. Needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "rocketmq")]
    rocketmq()?;
    Ok(())
}

#[cfg(feature = "rocketmq")]
fn rocketmq() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "../../proto/rocketmq";
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = protox::compile(["messaging.proto"], [FOLDER])?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".apache.rocketmq.v2.Message.body")
        .compile_fds(files)?;
    Ok(())
}
