#include "tests/launcher/look/other_process.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "launcher/look/kernel_view.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

// Returns the pid and the reading end of what the child prints.
std::pair<pid_t, int> fork_with_output(const std::function<void()>& body) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(ends[1], STDOUT_FILENO);
        body();
        ::_exit(0);
    }
    ::close(ends[1]);
    return {pid, ends[0]};
}

}  // namespace

OtherProcess::OtherProcess(const std::vector<std::string>& command)
    : OtherProcess([&command] {
          std::vector<char*> words;
          for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
          words.push_back(nullptr);
          ::execvp(words.front(), words.data());
      }) {}

OtherProcess::OtherProcess(const std::function<void()>& body) {
    std::tie(pid_, output_) = fork_with_output(body);
}

OtherProcess::~OtherProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(output_);
}

std::string OtherProcess::line() {
    std::string found;
    for (char byte = 0; ::read(output_, &byte, 1) == 1 && byte != '\n';) found += byte;
    return found;
}

void OtherProcess::await_state(char state) const {
    const auto limit = std::chrono::steady_clock::now() + kHangGuard;
    while (read_process_view(pid_).state != state) {
        if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("another state");
        std::this_thread::yield();
    }
}

std::string in_other_process(const std::function<std::string()>& body) {
    const auto [pid, output] = fork_with_output([&body] {
        const std::string answer = body() + "\n";
        if (::write(STDOUT_FILENO, answer.data(), answer.size()) < 0) ::_exit(1);
    });
    std::string answer;
    for (char byte = 0; ::read(output, &byte, 1) == 1;) answer += byte;
    ::close(output);
    ::waitpid(pid, nullptr, 0);
    if (!answer.ends_with('\n')) return "ended";
    answer.pop_back();
    return answer;
}

}  // namespace ddprun
