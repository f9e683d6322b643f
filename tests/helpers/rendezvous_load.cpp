// The rendezvous port under load, for scripts/bench_rendezvous.py: the server, or what is asked of it. Two processes, so
// that the memory of the one can be told from that of the other.
#include "tests/helpers/rendezvous_load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun {

void print_line(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

double milliseconds_between(LoadClock::time_point begin, LoadClock::time_point end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
}

StandardInput::StandardInput(boost::asio::io_context& context) : descriptor_(context, ::dup(STDIN_FILENO)) {}

void StandardInput::async_wait(std::function<void()> handler) {
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [handler = std::move(handler)](boost::system::error_code) { handler(); });
}

namespace {

void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The port of a job of so many nodes, with the heartbeats that a real one has, until the standard input ends.
void serve(int nodes) {
    RendezvousServerOptions options;
    options.coordinator.version = "1";
    options.coordinator.job_id = "job";
    options.coordinator.nnodes = nodes;
    options.coordinator.heartbeat = std::chrono::seconds(5);
    const RendezvousServer server(std::move(options));
    print_line("ready port=" + std::to_string(server.port()));
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

int usage() {
    std::fprintf(stderr, "usage: rendezvous_load serve NODES | agents COUNT PORT | clients COUNT PORT\n");
    return 2;
}

int run(int argc, char** argv) {
    if (argc < 3) return usage();
    const std::string_view load = argv[1];
    const auto count = whole_number<int>(argv[2], 1, 1'000'000);
    if (!count) return usage();
    raise_descriptor_limit();
    if (load == "serve" && argc == 3) {
        serve(*count);
        return 0;
    }
    const auto port = argc == 4 ? parse_port(argv[3]) : std::nullopt;
    if (!port || (load != "agents" && load != "clients")) return usage();
    const Endpoint server{"127.0.0.1", *port};
    load == "agents" ? load_agents(server, *count) : load_clients(server, *count);
    return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
    try {
        return ddprun::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rendezvous_load: %s\n", error.what());
        return 1;
    }
}
