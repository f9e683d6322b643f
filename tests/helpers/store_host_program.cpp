// A store for tests and benchmarks: prints "ready PORT" and serves until its standard input closes.
// With an argument: that port instead of a free one.
#include <unistd.h>

#include <cstdio>

#include "rendezvous/store/store_host.hpp"

int main(int argc, char** argv) {
    std::uint16_t port = 0;
    if (argc > 1) {
        auto parsed = ddprun::parse_port(argv[1]);
        if (!parsed) {
            std::fprintf(stderr, "usage: store_host_program [PORT]\n");
            return 2;
        }
        port = *parsed;
    }
    ddprun::StoreHost host(ddprun::ListenScope::loopback, port);
    std::printf("ready %u\n", static_cast<unsigned>(host.port()));
    std::fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
