#include "tests/helpers/worker_stub_prints.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

[[noreturn]] void refuse(const std::string& why) {
    std::fprintf(stderr, "worker_stub: %s\n", why.c_str());
    std::exit(kUsage);
}

void say(const std::string& line) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
}

std::string name_of(int signal) {
    if (const char* name = ::sigabbrev_np(signal)) return std::string("SIG") + name;
    return "signal " + std::to_string(signal);
}

int to_number(const std::string& text) {
    char* end = nullptr;
    const long number = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') refuse("'" + text + "' is no number");
    return static_cast<int>(number);
}

void print_place() {
    const auto value = [](const char* name) -> std::string {
        const char* text = std::getenv(name);
        return text == nullptr ? "?" : text;
    };
    say("place " + value("GROUP_RANK") + " of " + value("GROUP_WORLD_SIZE") + " nodes, rank " +
        value("RANK") + " of " + value("WORLD_SIZE"));
}

void print_environment() {
    Arguments lines;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        std::string line;
        for (const char* c = *entry; *c != '\0'; ++c) line += *c == '\n' ? "\\n" : std::string(1, *c);
        lines.push_back(line);
    }
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) say(line);
}

void print_stdin() {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0) {
        say(std::string(buffer, static_cast<std::size_t>(count)));
    }
    say(count == 0 ? "eof" : std::string("error ") + std::strerror(errno));
}

void print_descriptors() {
    std::vector<int> open;
    DIR* directory = ::opendir("/proc/self/fd");
    if (directory == nullptr) refuse("cannot list /proc/self/fd");
    while (const dirent* entry = ::readdir(directory)) {
        if (entry->d_name[0] == '.') continue;
        const int fd = to_number(entry->d_name);
        if (fd != ::dirfd(directory)) open.push_back(fd);
    }
    ::closedir(directory);
    std::sort(open.begin(), open.end());
    for (int fd : open) say(std::to_string(fd));
}

void print_dispositions() {
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action = {};
        if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            say("ignored " + name_of(signal));
        if (sigismember(&blocked, signal) == 1) say("blocked " + name_of(signal));
    }
    say("end");
}

void print_session() {
    say("pid " + std::to_string(::getpid()) + " ppid " + std::to_string(::getppid()) + " pgid " +
        std::to_string(::getpgrp()) + " sid " + std::to_string(::getsid(0)));
}
