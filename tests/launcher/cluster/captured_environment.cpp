#include "tests/launcher/cluster/captured_environment.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ddprun {
namespace {

std::string with_line_breaks(std::string text) {
    for (auto at = text.find("\\n"); at != std::string::npos; at = text.find("\\n", at))
        text.replace(at, 2, "\n");
    return text;
}

Fact fact_of(const std::string& word) {
    if (word == "nodes") return Fact::nnodes;
    if (word == "rank") return Fact::node_rank;
    if (word == "address") return Fact::master_addr;
    if (word == "port") return Fact::master_port;
    throw std::runtime_error("no fact: " + word);
}

void read_directive(CapturedEnvironment& captured, std::string& file, const std::string& line) {
    std::istringstream words(line);
    std::string name, first, second, third;
    words >> name >> first >> second >> third;
    if (name == "@host")
        captured.view.host_name = first;
    else if (name == "@address")
        captured.view.addresses.push_back(first);
    else if (name == "@file")
        captured.view.files[file = first];
    else if (name == "@said")
        captured.request.said.push_back({fact_of(first), {second, third, Belief::command_line}}),
            captured.request.least = first == "nodes" ? std::stoi(second) : captured.request.least;
    else if (name == "@least")
        captured.request.least = std::stoi(first);
    else if (name == "@scheduler")
        captured.request.scheduler = first;
    else if (name == "@one-node")
        captured.request.one_node = true;
    else if (name == "@unnumbered")
        captured.request.numbered = false;
    else if (name == "@adapts")
        captured.request.adapts_tasks = true;
    else
        throw std::runtime_error("no directive: " + line);
}

}  // namespace

CapturedEnvironment read_captured(const std::filesystem::path& file) {
    CapturedEnvironment captured;
    std::ifstream stream(file);
    std::string line, current_file;
    while (std::getline(stream, line)) {
        captured.given += line + "\n";
        if (line == "---") break;
        if (line.empty() || line[0] == '#') continue;
        const auto equals = line.find('=');
        if (line[0] == '@')
            read_directive(captured, current_file, line);
        else if (line[0] == '|')
            captured.view.files[current_file] += line.substr(1) + "\n";
        else if (equals != std::string::npos)
            captured.view.environment[line.substr(0, equals)] = with_line_breaks(line.substr(equals + 1));
        else
            throw std::runtime_error(file.string() + ": no variable: " + line);
    }
    while (std::getline(stream, line)) captured.expected += line + "\n";
    return captured;
}

std::vector<std::filesystem::path> captured_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(DDPRUN_ENVIRONMENTS)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace ddprun
