#include "launcher/process_group.hpp"

#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <string>

namespace ddprun {
namespace {

bool is_living_member(const std::filesystem::path& process, pid_t process_group) {
    const std::string name = process.filename().string();
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) == 0) return false;
    std::ifstream file(process / "stat");
    std::string line;
    // A process that ends meanwhile has no line any more.
    if (!std::getline(file, line, '\0')) return false;
    auto membership = parse_process_stat(line);
    return membership && membership->process_group == process_group && !membership->ended;
}

}  // namespace

std::optional<GroupMembership> parse_process_stat(std::string_view line) {
    const auto command_end = line.rfind(')');
    if (command_end == std::string_view::npos || line.size() < command_end + 5) return std::nullopt;
    // After the command: " S ppid pgrp ".
    const char state = line[command_end + 2];
    std::string_view rest = line.substr(command_end + 4);
    const auto space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
    GroupMembership membership;
    auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), membership.process_group);
    if (error != std::errc{}) return std::nullopt;
    membership.ended = state == 'Z' || state == 'X';
    return membership;
}

bool process_group_alive(pid_t process_group, const std::filesystem::path& proc) {
    if (::kill(-process_group, 0) < 0 && errno == ESRCH) return false;
    std::error_code error;
    std::filesystem::directory_iterator entries(proc, error);
    // Without /proc a zombie cannot be told from a living process.
    if (error) return true;
    for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
        if (error) return true;
        if (is_living_member(entries->path(), process_group)) return true;
    }
    return false;
}

}  // namespace ddprun
