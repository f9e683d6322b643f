// A store for tests and benchmarks: prints "ready PORT" and serves until its standard input closes.
//
//     store_host_program [PORT]     a store, at that port instead of a free one
//     store_host_program --door     a job's store with a key, and an agent's door to it; the port is the
//                                   door's
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "rendezvous/link/store_door.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/store/store_host.hpp"

namespace ddprun {
namespace {

void serve_until_end_of_input(std::uint16_t port) {
    std::printf("ready %u\n", static_cast<unsigned>(port));
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

void serve_door() {
    const SecretKey key = SecretKey::fresh();
    const RendezvousServer server({.coordinator = {.job_id = "job", .nnodes = 2}, .key = key});
    const auto door = StoreDoor::make({.key = key});
    door->begin_round(server.own_endpoint());
    serve_until_end_of_input(door->endpoint().port);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
    using namespace ddprun;
    if (argc == 2 && argv[1] == std::string_view("--door")) {
        serve_door();
        return 0;
    }
    const auto port = argc > 1 ? parse_port(argv[1]) : 0;
    if (!port) {
        std::fprintf(stderr, "usage: store_host_program [PORT | --door]\n");
        return 2;
    }
    const StoreHost host(ListenScope::loopback, *port);
    serve_until_end_of_input(host.port());
    return 0;
}
