#include "rendezvous/net/port_owner.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline base {
namespace {

constexpr std::string_view kListenState = "0A";  // TCP_LISTEN in /proc/net/tcp
constexpr unsigned char kDelete = 0x7f;          // from here on no byte is printable ASCII

std::string read_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    return {std::istream_iterator<std::string>(stream), {}};
}

std::string command_line(const std::filesystem::path& process) {
    std::string text = read_text(process / "cmdline");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return shown_command(text);
}

bool holds_socket(const std::filesystem::path& process, const std::vector<std::uint64_t>& inodes) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(process / "fd", error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code link_error;
        std::string target = std::filesystem::read_symlink(entry->path(), link_error).string();
        for (std::uint64_t inode : inodes) {
            if (target == fmt::format("socket:[{}]", inode)) return true;
        }
    }
    return false;
}

}  // namespace

std::vector<std::uint64_t> listening_inodes(std::string_view proc_net_tcp, std::uint16_t port) {
    // Columns: sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …
    constexpr std::size_t kLocalAddress = 1, kState = 3, kInode = 9;
    std::vector<std::uint64_t> inodes;
    std::istringstream lines{std::string(proc_net_tcp)};
    for (std::string line; std::getline(lines, line);) {
        auto columns = words(line);
        if (columns.size() <= kInode || columns[kState] != kListenState) continue;
        const std::string& local = columns[kLocalAddress];
        auto colon = local.rfind(':');
        if (colon == std::string::npos) continue;
        const auto local_port =
            whole_number<unsigned>(std::string_view(local).substr(colon + 1), 0, 65535, 16);
        const auto inode = whole_number<std::uint64_t>(columns[kInode], 1);
        if (local_port == port && inode) inodes.push_back(*inode);
    }
    return inodes;
}

std::string shown_command(std::string_view arguments) {
    std::string text(arguments.substr(0, kMaxCommandText));
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < ' ') c = ' ';
        if (byte >= kDelete) c = '?';
    }
    return arguments.size() > kMaxCommandText ? text + "…" : text;
}

std::optional<PortOwner> find_port_owner(std::uint16_t port) {
    auto inodes = listening_inodes(read_text("/proc/net/tcp"), port);
    auto inodes6 = listening_inodes(read_text("/proc/net/tcp6"), port);
    inodes.insert(inodes.end(), inodes6.begin(), inodes6.end());
    if (inodes.empty()) return std::nullopt;

    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
        const auto pid = whole_number<pid_t>(entry->path().filename().string(), 1);
        if (pid && holds_socket(entry->path(), inodes)) return PortOwner{*pid, command_line(entry->path())};
    }
    return std::nullopt;
}

}  // namespace ddprun::inline base
