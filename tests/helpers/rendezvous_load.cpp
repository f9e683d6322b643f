// The rendezvous port under load, for scripts/bench_rendezvous.py and bench_door.py: the server, the doors
// that lead to it, or what is asked of it. A process of its own for each, so that the memory and work of the
// one can be told from that of the others.
#include "tests/helpers/rendezvous_load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/text/whole_number.hpp"

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
void serve(int nodes, bool has_secret) {
    RendezvousServerOptions options;
    options.coordinator.version = "1";
    options.coordinator.job_id = "job";
    options.coordinator.nnodes = nodes;
    options.coordinator.heartbeat = std::chrono::seconds(5);
    if (has_secret) options.key = load_secret();
    const RendezvousServer server(std::move(options));
    print_line("ready port=" + std::to_string(server.port()));
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

int usage() {
    std::fprintf(stderr,
                 "usage: rendezvous_load serve NODES [secret]\n"
                 "       rendezvous_load agents|doors|record COUNT PORT\n"
                 "       rendezvous_load clients|questions COUNT PORT...\n");
    return 2;
}

// Empty where one of the words is no port.
std::vector<Endpoint> servers_of(std::span<char* const> words) {
    std::vector<Endpoint> servers;
    for (const char* word : words) {
        const auto port = parse_port(word);
        if (!port) return {};
        servers.push_back({"127.0.0.1", *port});
    }
    return servers;
}

int run(int argc, char** argv) {
    if (argc < 3) return usage();
    const std::string_view load = argv[1];
    const auto count = whole_number<int>(argv[2], 1, 1'000'000);
    if (!count) return usage();
    raise_descriptor_limit();
    const std::span words(argv + 3, static_cast<std::size_t>(argc - 3));
    if (load == "serve") {
        const bool has_secret = words.size() == 1 && std::string_view(words[0]) == "secret";
        if (words.size() != (has_secret ? 1U : 0U)) return usage();
        serve(*count, has_secret);
        return 0;
    }
    const std::vector<Endpoint> servers = servers_of(words);
    if (servers.empty()) return usage();
    if (load == "clients") {
        load_clients(servers, *count);
    } else if (load == "questions") {
        load_questions(servers, *count);
    } else if (servers.size() > 1) {
        return usage();
    } else if (load == "agents") {
        load_agents(servers[0], *count);
    } else if (load == "doors") {
        load_doors(servers[0], *count);
    } else if (load == "record") {
        load_record(servers[0], *count);
    } else {
        return usage();
    }
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
