// Gloo's all-reduce, timed. See timing.hpp. RANK and WORLD_SIZE say who this is; the ranks meet in the folder
// GLOO_MEETING.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "timing.hpp"

int main(int argc, char** argv) {
    Peer peer;
    peer.rank = std::atoi(std::getenv("RANK"));
    gloo::rendezvous::FileStore store(std::getenv("GLOO_MEETING"));
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(peer.rank, std::atoi(std::getenv("WORLD_SIZE")));
    context->connectFullMesh(store, device);
    peer.barrier = [&] {
        gloo::BarrierOptions options(context);
        gloo::barrier(options);
    };
    peer.all_reduce = [&](float* data, std::size_t count) {
        gloo::AllreduceOptions options(context);
        options.setOutput(data, count);
        using Sum = void (*)(void*, const void*, const void*, std::size_t);
        options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
        gloo::allreduce(options);
    };
    time_sizes(peer, argc, argv);
}
