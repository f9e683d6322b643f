#include "launcher/start/remote_shell.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/cluster/family.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr const char* kOwnLink = "/proc/self/exe";

// Looks in what is mapped of one note segment; empty: the id is not there.
std::string id_in_notes(std::string_view notes) {
    const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
    ElfW(Nhdr) head{};
    while (notes.size() >= sizeof head) {
        std::memcpy(&head, notes.data(), sizeof head);
        const std::size_t begin = sizeof head + padded(head.n_namesz);
        const std::size_t size = begin + padded(head.n_descsz);
        if (size > notes.size()) break;
        const bool is_gnus = notes.substr(sizeof head, head.n_namesz) == std::string_view("GNU\0", 4);
        if (head.n_type == NT_GNU_BUILD_ID && is_gnus) {
            std::string id;
            for (const char byte : notes.substr(begin, head.n_descsz))
                id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
            return id;
        }
        notes.remove_prefix(size);
    }
    return {};
}

// The first object is the program itself.
int note_id(dl_phdr_info* object, std::size_t, void* found) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE) continue;
        const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
        std::string id = id_in_notes({begin, segment.p_memsz});
        if (id.empty()) continue;
        *static_cast<std::string*>(found) = std::move(id);
        break;
    }
    return 1;
}

}  // namespace

std::string build_identity() {
    std::string id;
    ::dl_iterate_phdr(note_id, &id);
    struct stat file {};
    // Linked without one: a file of that size and time is hardly another build's.
    if (id.empty() && ::stat(kOwnLink, &file) == 0)
        id = fmt::format("{}.{}", file.st_size, file.st_mtim.tv_sec);
    return fmt::format("{}-{}", DDPRUN_VERSION, id);
}

std::string own_program() {
    std::error_code gone;
    const auto path = std::filesystem::read_symlink(kOwnLink, gone);
    struct stat named {};
    struct stat ours {};
    const bool is_there = !gone && ::stat(path.c_str(), &named) == 0 && ::stat(kOwnLink, &ours) == 0;
    // Another build may have taken its name.
    const bool is_same = is_there && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
    return is_same ? path.string() : "";
}

std::string own_executable() {
    const std::string path = own_program();
    return path.empty() ? kOwnLink : path;
}

std::uint64_t own_program_size() {
    struct stat ours {};
    return ::stat(kOwnLink, &ours) == 0 ? static_cast<std::uint64_t>(ours.st_size) : 0;
}

std::string own_program_bytes() {
    std::ifstream program(kOwnLink, std::ios::binary);
    return {std::istreambuf_iterator<char>(program), {}};
}

namespace {

constexpr std::string_view kNeedLine = "ddprun-relay need";

// The file goes into a folder that nobody else may look into; the relay removes it as the first thing it
// does, and the shell if it never becomes that. `wc` finds out whether the connection broke on the way. The
// shell asks first where the system would execute it.
constexpr std::string_view kShipping =
    R"sh(umask 077;for t in "${{TMPDIR:-/tmp}}" /var/tmp ~;do d=$(mktemp -d "$t/ddprun_relay_XXXXXX")||continue;)sh"
    R"sh(trap "rm -rf \"$d\"" EXIT;trap "exit 1" HUP INT TERM;)sh"
    R"sh(:>"$d/ddprun"&&chmod 700 "$d/ddprun"&&[ -x "$d/ddprun" ]&&break;rm -rf "$d";d=;done;[ "$d" ]||{{ )sh"
    R"sh(echo "no place for the launcher: TMPDIR (${{TMPDIR:-/tmp}}), /var/tmp and HOME ($HOME) are full or mounted )sh"
    R"sh(noexec; set TMPDIR there to a folder that is not, or install ddprun there">&2;exit 73;}};)sh"
    R"sh(head -c {0} >"$d/ddprun"&&[ "$(wc -c <"$d/ddprun")" -eq {0} ]&&)sh"
    R"sh(exec "$d/ddprun" {1} {2} "$d")sh";

// A file of the launcher's name may be anybody's there, so that the shell holds it open, looks at what it
// holds, and runs that. It walks to it as owners_of() does, too: nobody else may have chosen which of root's
// files it is. $s says of the way so far: o, others may make names there; x, the folder is another's. The
// folder and the file itself are no other's anywhere. $z has root's files where the user namespace lacks
// root.
//
// The relay is not put in the shell's place: only by how it ends the shell knows whether it is of this build.
// A signal to both ends neither before the agent has ended.
constexpr std::string_view kOwn =
    R"sh(z=0;while read a b;do [ "$a" = 0 ]&&{{ z=0;break;}};z=65534;done</proc/self/uid_map;)sh"
    R"sh(ours(){{ case $3 in "")return 1;;0|$u{0})k=;;$z)k=$s;;*)k=x;;esac;}};)sh"
    R"sh(own(){{ q=$p r= s= n=;while [ "$q" ];do c=${{q%%/*}};case $q in */*)q=${{q#*/}};;*)q=;;esac;)sh"
    R"sh([ "$c" ]||continue;set -- $(ls -ldn "$r/$c");ours "$@"||return 1;[ "$k" ]&&[ "$s" ]&&return 1;)sh"
    R"sh(case $1 in l*)n=x$n;[ ${{#n}} -lt 40 ]||return 1;t=$(readlink "$r/$c");)sh"
    R"sh(case $t in /*)r=;;esac;q=$t${{q:+/$q}};continue;;d*)r=$r/$c;[ "$k" ]&&s=x;[ -z "$k" ]&&[ "$s" ]&&s=o;)sh"
    R"sh(case $1 in d???????w*)s=o;;d????w*)[ "$3" = "$4" ]||s=o;;esac;;esac;done;)sh"
    R"sh([ "$k" ]||[ "$s" = x ]&&return 1;set -- $(ls -Lldn /proc/$$/fd/9);ours "$@"&&[ -z "$k" ];}};)sh";

}  // namespace

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') {
            quoted += R"('\'')";
        } else {
            quoted += c;
        }
    }
    return quoted += '\'';
}

std::string bootstrap_line(const BootstrapRequest& request) {
    std::string owners;
    for (const std::uint32_t owner : request.owners) owners += fmt::format("|{}", owner);
    const std::string script = fmt::format(
        R"sh(trap : INT TERM;p={};u=$(id -u);{})sh"
        R"sh([ -f "$p" ]&&[ -r "$p" ]&&[ -x "$p" ]&&exec 9<"$p"&&own 2>/dev/null&&p=/proc/$$/fd/9||p=ddprun;)sh"
        R"sh((exec 9<&-;exec "$p" {} {});c=$?;exec 9<&-;case $c in 2|{}|126|127);;*)exit $c;;esac;echo {};{})sh",
        shell_quoted(request.file), fmt::format(kOwn, owners), kRelayFlag, request.identity, kExitOtherBuild,
        kNeedLine,
        request.ships ? fmt::format(kShipping, request.size, kRelayFlag, request.identity) : "exit 0");
    return "exec /bin/sh -c " + shell_quoted(script);
}

Handshake::Word Handshake::push(std::string_view bytes) {
    held_ += bytes;
    for (auto end = held_.find('\n'); end != std::string::npos; end = held_.find('\n')) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        passed_ += end + 1;
        if (line.ends_with('\r')) line.pop_back();
        // A shell's noise may end without a newline.
        if (line.ends_with(kHaveLine)) return Word::have;
        if (line.ends_with(kNeedLine)) return Word::need;
        noise_ = std::move(line);
    }
    return passed_ + held_.size() > kMaxNoise ? Word::too_much : Word::none;
}

namespace {

constexpr std::string_view kSsh = "ssh";
constexpr std::string_view kSrun = "srun";
constexpr std::string_view kBlaunch = "blaunch";
constexpr std::string_view kQrsh = "qrsh";

// These of Slurm's variables name the job, the cluster and the user to srun.
constexpr std::string_view kKeptForSrun =
    "SLURM_CONF* SLURM_CLUSTER* SLURM_WORKING_CLUSTER SLURM_JOB_ID SLURM_JOBID SLURM_JWT SLURM_HET_*";

bool is_kept_for_srun(std::string_view name) {
    return !matches_pattern(name, "SLURM_* SRUN_*") || matches_pattern(name, kKeptForSrun);
}

struct ShellPlace {
    std::string_view sign;
    std::string text;
    bool is_filled = false;
};
using ShellPlaces = std::array<ShellPlace, 3>;

std::string filled_word(std::string_view word, ShellPlaces& places) {
    std::string filled;
    while (!word.empty()) {
        std::size_t taken = 1;
        for (ShellPlace& place : places) {
            if (!word.starts_with(place.sign)) continue;
            filled += place.text;
            place.is_filled = true;
            taken = place.sign.size();
        }
        if (taken == 1) filled += word.front();
        word.remove_prefix(taken);
    }
    return filled;
}

// ssh's, for all that goes wrong before there is a shell.
constexpr int kSshFailed = 255;

// The host's own shell and ddprun say some of these words, too: so a cause is what this program says before
// there is a shell.
struct KnownCause {
    std::string_view words;
    std::string_view remedy;
    bool is_srun = false;
};
// Trying again does not help there.
constexpr std::array<KnownCause, 4> kKnownCauses{{
    {"Permission denied (",
     "ssh is not let ask for a password (BatchMode); set up a key, so that `ssh HOST true` works"},
    {"Host key verification failed",
     "ssh is not let ask whether to trust a new host (BatchMode); connect to it once by hand, or see "
     "ssh-keyscan"},
    {"Unable to create step",
     "a node may have other GPUs than its even share of the job's; ask for --gpus-per-node, or start ddprun by srun "
     "--ntasks-per-node=1",
     true},
    {"Too many authentication failures", "name one key for this host in ~/.ssh/config (IdentitiesOnly)"},
}};

const KnownCause* known_cause(const RshEnd& end) {
    const auto* exited = std::get_if<Exited>(&end.status);
    const auto* found = std::find_if(kKnownCauses.begin(), kKnownCauses.end(), [&](const KnownCause& cause) {
        const bool is_its_code = cause.is_srun || (exited != nullptr && exited->code == kSshFailed);
        return is_its_code && end.last_line.find(cause.words) != std::string::npos;
    });
    return found == kKnownCauses.end() ? nullptr : found;
}

std::string end_text(const ExitStatus& status) {
    if (const auto* exited = std::get_if<Exited>(&status)) return fmt::format("exit {}", exited->code);
    return to_string(status);
}

}  // namespace

std::string shell_name(const std::vector<std::string>& command) {
    return command.empty() ? std::string(kSsh) : command.front().substr(command.front().rfind('/') + 1);
}

std::vector<std::string> remote_shell(std::vector<std::string> command) {
    if (command.empty()) command = {std::string(kSsh)};
    const std::string name = shell_name(command);
    // The user's options stand before these and count for ssh; what follows is no option.
    if (name == kSsh)
        command.insert(command.end(),
                       {"-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", kConnectSeconds), "-o",
                        "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-T", "-x", "--"});
    // Each host's agent has all that the job has there, beside what else the job runs, and binds its workers
    // itself.
    if (name == kSrun)
        command.insert(command.end(),
                       {"--nodes=1", "--ntasks=1", "--overlap", "--mpi=none", "--cpu-bind=none",
                        "--export=ALL", "--quiet", fmt::format("--gpus={}", kGpusPlace),
                        fmt::format("--nodelist={}", kHostPlace), "/bin/sh", "-c", std::string(kLinePlace)});
    if (name == kQrsh && std::find(command.begin(), command.end(), "-inherit") == command.end())
        command.emplace_back("-inherit");
    return command;
}

std::optional<std::string> why_no_remote_shell(const std::vector<std::string>& command) {
    const std::string name = shell_name(command);
    if (name != "pbsdsh" && name != "pbs_tmrsh") return std::nullopt;
    return fmt::format("{} gives what it starts no standard input, by which the job's key comes; take ssh",
                       name);
}

std::vector<std::string> shell_words(const std::vector<std::string>& command, const ShellCall& call) {
    ShellPlaces places{
        {{kHostPlace, call.target}, {kLinePlace, call.line}, {kGpusPlace, std::to_string(call.gpus)}}};
    std::vector<std::string> words;
    for (const std::string& word : command) {
        if (call.gpus > 0 || word.find(kGpusPlace) == std::string::npos)
            words.push_back(filled_word(word, places));
    }
    // A command's own words say how many GPUs, if they do.
    for (const std::size_t needed : {0U, 1U}) {
        if (!places[needed].is_filled) words.push_back(places[needed].text);
    }
    return words;
}

Environment shell_environment(const std::vector<std::string>& command, Environment environment) {
    if (shell_name(command) == kSrun)
        std::erase_if(environment, [](const auto& variable) { return !is_kept_for_srun(variable.first); });
    return environment;
}

bool is_schedulers(const std::vector<std::string>& command) {
    const std::string name = shell_name(command);
    return name == kSrun || name == kBlaunch || name == kQrsh;
}

std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end) {
    std::string text =
        fmt::format("{}: {} {}", target, command.substr(command.rfind('/') + 1), end_text(end.status));
    const std::string line = harmless_output_line(end.last_line);
    if (!line.empty()) text += ": " + line;
    if (const KnownCause* cause = known_cause(end)) text += fmt::format(" ({})", cause->remedy);
    return text;
}

bool is_worth_another(const RshEnd& end) {
    const auto* exited = std::get_if<Exited>(&end.status);
    return exited != nullptr && exited->code == kSshFailed && known_cause(end) == nullptr;
}

std::chrono::milliseconds pause_before_next(int failed, double chance) {
    const auto least = kFirstConnectPause * (1 << std::clamp(failed - 1, 0, kMaxConnects));
    return least +
           std::chrono::duration_cast<std::chrono::milliseconds>(least * std::clamp(chance, 0.0, 1.0));
}

}  // namespace launch
}  // namespace ddprun
