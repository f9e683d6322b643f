#include "tests/support/rank_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

void close_if_open(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

Environment environment_of(int rank, int world_size, std::uint16_t port) {
    WorkerIdentity identity;
    identity.rank = rank;
    identity.local_rank = rank;
    identity.world_size = world_size;
    identity.local_world_size = world_size;
    identity.master_port = port;
    identity.job_id = "test";
    return worker_environment(current_environment(), identity);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

}  // namespace

RankProcesses::RankProcesses(int world_size, const std::vector<std::string>& command,
                             const std::function<void(int rank, Environment&)>& change)
    : store_(ListenScope::loopback, 0), processes_(static_cast<std::size_t>(world_size)) {
    for (int rank = 0; rank < world_size; ++rank) {
        Environment environment = environment_of(rank, world_size, store_.port());
        if (change) change(rank, environment);
        start(processes_[static_cast<std::size_t>(rank)], environment, command);
    }
}

RankProcesses::~RankProcesses() {
    for (Process& process : processes_) {
        close_if_open(process.input);
        close_if_open(process.output);
        if (process.pid < 0) continue;
        ::kill(process.pid, SIGKILL);
        ::waitpid(process.pid, nullptr, 0);
    }
}

void RankProcesses::start(Process& process, const Environment& environment,
                          const std::vector<std::string>& command) {
    int input[2];
    int output[2];
    if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    process.input = input[1];
    process.output = output[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    std::vector<std::string> arguments = command;
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + '=' + value);
    const int error = ::posix_spawn(&process.pid, command[0].c_str(), &actions, nullptr,
                                    pointers(arguments).data(), pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    if (error != 0) {
        process.pid = -1;
        throw std::runtime_error("cannot start " + command[0]);
    }
}

bool RankProcesses::read_more(Process& process, std::chrono::steady_clock::time_point limit) {
    pollfd polled{process.output, POLLIN, 0};
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    if (::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(rest.count(), 0))) == 0) {
        throw std::runtime_error("a rank hangs; so far it printed: " + process.text);
    }
    char buffer[4096];
    const ssize_t count = ::read(process.output, buffer, sizeof(buffer));
    if (count <= 0) return false;
    process.text.append(buffer, static_cast<std::size_t>(count));
    return true;
}

void RankProcesses::wait_for(int rank, const std::string& text, std::chrono::seconds guard) {
    Process& process = processes_[static_cast<std::size_t>(rank)];
    const auto limit = std::chrono::steady_clock::now() + guard;
    while (process.text.find(text) == std::string::npos) {
        if (!read_more(process, limit))
            throw std::runtime_error("a rank ended early; it printed: " + process.text);
    }
}

RankProcesses::Result RankProcesses::finish(int rank, std::chrono::seconds guard) {
    Process& process = processes_[static_cast<std::size_t>(rank)];
    const auto limit = std::chrono::steady_clock::now() + guard;
    while (read_more(process, limit)) {
    }
    Result result;
    ::waitpid(process.pid, &result.wait_status, 0);
    process.pid = -1;
    result.output = process.text;
    return result;
}

void RankProcesses::kill(int rank, int signal) {
    ::kill(processes_[static_cast<std::size_t>(rank)].pid, signal);
}

void RankProcesses::close_input(int rank) { close_if_open(processes_[static_cast<std::size_t>(rank)].input); }

bool shares_memory(const RankProcesses& ranks, int rank) {
    std::ifstream file("/proc/" + std::to_string(ranks.process_id(rank)) + "/maps");
    const std::string maps{std::istreambuf_iterator<char>(file), {}};
    return maps.find("memfd:ddprun-collectives") != std::string::npos;
}

void let_time_pass(std::mt19937& random) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 20'000);
    while (std::chrono::steady_clock::now() < limit) std::this_thread::yield();
}

}  // namespace ddprun
