#include "launcher/failure_report.hpp"

#include "launcher/exit_status.hpp"

namespace ddprun {
namespace {

std::string node_text(const Failure& failure) {
    std::string text = "node " + std::to_string(failure.node_rank);
    return failure.host.empty() ? text : text + " (" + failure.host + ")";
}

std::string worker_text(const Failure& failure) {
    std::string text = "rank " + std::to_string(failure.rank) + " (local rank " +
                       std::to_string(failure.local_rank) + ") on " + node_text(failure);
    return failure.pid == 0 ? text : text + ", pid " + std::to_string(failure.pid);
}

ExitStatus status_of(const Failure& failure) {
    if (failure.signal != 0) return Signaled{failure.signal, failure.core_dumped};
    return Exited{failure.exit_code};
}

std::string worker_line(const Failure& failure) {
    if (failure.pid == 0) return worker_text(failure) + " could not be started";
    return worker_text(failure) + ": " + to_string(status_of(failure));
}

std::string what_happened(const std::string& entry_name, const Failure& failure) {
    switch (failure.kind) {
        case Failure::Kind::worker_failed:
            return entry_name + " failed; first failure: " + worker_line(failure);
        case Failure::Kind::node_lost:
            return entry_name + " was stopped, because " + node_text(failure) + " was lost";
        case Failure::Kind::signalled:
            return entry_name + " was stopped by " + signal_text(failure.signal) + " sent to ddprun on " +
                   node_text(failure);
    }
    return {};
}

}  // namespace

std::string failure_report(const std::string& entry_name, const Failure& first_failure, int exit_code) {
    std::string report = what_happened(entry_name, first_failure);
    if (!first_failure.message.empty()) report += "\n  " + first_failure.message;
    return report + "\n  exiting with code " + std::to_string(exit_code);
}

}  // namespace ddprun
