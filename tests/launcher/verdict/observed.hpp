// Observations as ranks of several kinds of programs give them, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/verdict/observation.hpp"

namespace ddprun {

// Program: what a rank is written with. By sockets: plain Python, whose ranks send to their neighbours.
enum class Program { sockets, gloo, own_backend, cpp };
inline constexpr Program kPrograms[] = {Program::sockets, Program::gloo, Program::own_backend, Program::cpp};
inline const char* name_of(Program program) {
    constexpr const char* kNames[] = {"plain sockets", "PyTorch and Gloo", "PyTorch and ours", "C++"};
    return kNames[static_cast<int>(program)];
}

inline Frame python(std::string function, std::string file, int line) {
    return {std::move(function), std::move(file), line, false};
}
inline Frame native(std::string function, std::string file) {
    return {std::move(function), std::move(file), 0, true};
}

inline Wait wait_of(WaitKind kind, std::string object = {}, bool is_timed = false) {
    Wait wait;
    wait.kind = kind;
    wait.object = std::move(object);
    wait.is_timed = is_timed;
    return wait;
}

// Observed makes observations of ranks of one program, two to a node.
class Observed {
  public:
    explicit Observed(Program program) : program_(program) {}

    Observation rank(int number, WaitKind kind, std::vector<Frame> inner, std::string object = {}) const {
        Observation one;
        one.rank = number;
        one.node = number / 2;
        one.host = number < 2 ? "gpu06" : "gpu07";
        one.pid = 1000 + number;
        one.wait = wait_of(kind, std::move(object));
        one.frames = std::move(inner);
        one.source = program_ == Program::cpp ? StackSource::native : StackSource::python;
        for (const Frame& frame : outer()) one.frames.push_back(frame);
        return one;
    }

    // Returns a rank in a user's function, in a wait of the kind.
    Observation away(int number, WaitKind kind, const std::string& function = "next_batch",
                     std::string object = {}) const {
        return program_ == Program::cpp
                   ? rank(number, kind,
                          {native("clock_nanosleep", "/lib/x86_64-linux-gnu/libc.so.6"),
                           native(function, "/proj/train")},
                          std::move(object))
                   : rank(number, kind,
                          {native("clock_nanosleep", "/lib/x86_64-linux-gnu/libc.so.6"),
                           python(function, "/proj/data.py", 88),
                           python("_next_data",
                                  "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 671)},
                          std::move(object));
    }

    // Returns a rank in an operation that others take part in, called in a line of its own. Of sockets it
    // waits for the neighbour's of four ranks, unless others are awaited.
    Observation meets(int number, const std::string& operation = "all_reduce", int line = 140,
                      std::vector<int> awaited = {}, std::uint64_t call = 41'201) const {
        constexpr const char* kTorch = "/usr/lib/python3/dist-packages/torch/distributed/";
        const std::vector<Frame> torch = {
            python(operation, std::string(kTorch) + "distributed_c10d.py", 2810),
            python("wrapper", std::string(kTorch) + "c10d_logger.py", 81),
            python("step", "/proj/train.py", line)};
        const auto with = [](std::vector<Frame> first, const std::vector<Frame>& rest) {
            first.insert(first.end(), rest.begin(), rest.end());
            return first;
        };
        Observation one;
        switch (program_) {
            case Program::sockets:
                one = rank(number, WaitKind::socket,
                           {native("recv", "/lib/x86_64-linux-gnu/libc.so.6"),
                            python(operation, "/proj/ring.py", 30), python("step", "/proj/train.py", line)});
                one.peers = awaited.empty() ? std::vector<int>{(number + 3) % 4} : std::move(awaited);
                return one;
            case Program::gloo:
                return rank(number, WaitKind::lock,
                            with({native("pthread_cond_wait", "/lib/x86_64-linux-gnu/libc.so.6"),
                                  native("c10d::ProcessGroupGloo::AsyncWork::wait",
                                         "/opt/torch/lib/libtorch_cpu.so")},
                                 torch));
            case Program::own_backend:
                one = rank(number, WaitKind::poll,
                           with({native("epoll_wait", "/lib/x86_64-linux-gnu/libc.so.6"),
                                 native("ddprun::TcpBackend::run", "/opt/ddprun/extension.so")},
                                torch));
                break;
            case Program::cpp:
                one = rank(number, WaitKind::lock,
                           {native("syscall", "/lib/x86_64-linux-gnu/libc.so.6"),
                            native("ddprun::detail::ShmBackend::run", "/proj/train"),
                            native("ddprun::Communicator::" + operation, "/proj/train"),
                            native("step_" + std::to_string(line), "/proj/train")});
                break;
        }
        one.call = CollectiveCall{operation, "world", call, 31'000, std::move(awaited)};
        return one;
    }

    Observation ended(int number, int code = 0) const {
        Observation one = away(number, WaitKind::ended);
        one.frames.clear();
        one.source = StackSource::proc;
        one.exit_code = code;
        return one;
    }

    Program program() const { return program_; }

  private:
    std::vector<Frame> outer() const {
        if (program_ == Program::cpp) return {native("main", "/proj/train"), native("_start", "/proj/train")};
        return {python("main", "/proj/train.py", 151), python("<module>", "/proj/train.py", 160),
                python("run", "/usr/lib/python3/dist-packages/torch/distributed/elastic/errors/__init__.py",
                       346)};
    }

    Program program_;
};

}  // namespace ddprun
