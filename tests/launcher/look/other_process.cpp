#include "tests/launcher/look/other_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "launcher/look/kernel_view.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

// Forks a child that has this process's ends of two pipes as its input and output.
OtherProcess::Ends fork_with_pipes(const std::function<void()>& body) {
    std::array<int, 2> input{}, output{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(input[0], STDIN_FILENO);
        ::dup2(output[1], STDOUT_FILENO);
        body();
        ::_exit(0);
    }
    ::close(input[0]);
    ::close(output[1]);
    return {pid, OwnedDescriptor(input[1]), OwnedDescriptor(output[0])};
}

}  // namespace

OtherProcess::OtherProcess(const std::vector<std::string>& command)
    : OtherProcess([&command] {
          std::vector<char*> words;
          for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
          words.push_back(nullptr);
          ::execvp(words.front(), words.data());
      }) {}

OtherProcess::OtherProcess(const std::function<void()>& body) : ends_(fork_with_pipes(body)) {}

OtherProcess::~OtherProcess() {
    ::kill(ends_.pid, SIGKILL);
    ::waitpid(ends_.pid, nullptr, 0);
}

std::string OtherProcess::line() {
    std::string found;
    for (char byte = 0; ::read(ends_.output.get(), &byte, 1) == 1 && byte != '\n';) found += byte;
    return found;
}

void OtherProcess::await_state(char state) const {
    const auto limit = std::chrono::steady_clock::now() + kHangGuard;
    while (read_process_view(pid()).state != state) {
        if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("another state");
        std::this_thread::yield();
    }
}

std::string in_other_process(const std::function<std::string()>& body) {
    OtherProcess child([&body] {
        const std::string answer = body() + "!\n";
        if (::write(STDOUT_FILENO, answer.data(), answer.size()) < 0) ::_exit(1);
    });
    std::string answer = child.line();
    if (!answer.ends_with('!')) return "ended";
    answer.pop_back();
    return answer;
}

}  // namespace ddprun
