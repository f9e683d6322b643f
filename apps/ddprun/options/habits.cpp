// What people type who know another launcher, and what documents and chats make of a line that was copied
// from them.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/launcher_words.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/plan/rank_command.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace app {
namespace {

// A Habit is an option of other launchers, without its dashes. `here` is what to type in its place, with {}
// for the value.
struct Habit {
    std::string_view names;
    std::string_view of;
    std::string_view here;
};

constexpr std::string_view kEach = "--nproc-per-node {} (on each node)";
constexpr std::string_view kNodes = "--nnodes {}";
constexpr std::string_view kGpus = "--nproc-per-node gpu (a worker for each), or a number";
constexpr std::string_view kNothing = "leave it out, there is nothing to say";
constexpr std::string_view kFiles = "--log-dir DIR --redirects 3, or --tee 3 to see it, too";
constexpr std::string_view kBind = "--bind cores, numa or none";
constexpr std::string_view kScheduler =
    "leave it out: it is for sbatch, salloc or srun, in whose job ddprun runs";

constexpr Habit kHabits[] = {
    {"np", "mpirun's count of all workers", kEach},
    {"n", "mpirun's and srun's count of all workers", kEach},
    {"ntasks", "srun's count of all workers", kEach},
    {"num-processes", "accelerate's count of all workers", kEach},
    {"world-size,num-tasks,num-procs,nprocs,procs,ranks", "another launcher's count of all workers", kEach},
    {"nrs,tasks-per-rs,rs-per-host,a", "jsrun's", "--nproc-per-node N (on each node)"},
    {"N", "srun's for nodes, mpirun's and aprun's for workers",
     "--nnodes {0}, or --nproc-per-node {0} (on each node)"},
    {"nodes", "srun's", kNodes},
    {"num-nodes", "deepspeed's", kNodes},
    {"num-machines", "accelerate's", kNodes},
    {"npernode,ppn,perhost", "mpirun's", kEach},
    {"ntasks-per-node,tasks-per-node", "srun's", kEach},
    {"num-gpus", "deepspeed's", kEach},
    {"num-workers,workers,nproc-per-host,ngpus,ngpus-per-node", "another launcher's", kEach},
    {"num-proc,slots,slots-per-host", "horovodrun's", kEach},
    {"gpus,gpus-per-node,gpus-per-task,gres,G", "srun's", kGpus},
    {"gpu,gpu-ids,gpu-id,devices,device", "accelerate's, or your program's",
     "CUDA_VISIBLE_DEVICES={} in front of ddprun, with --nproc-per-node gpu"},
    {"multi-gpu,same-network,mpi,gloo,allow-run-as-root,oversubscribe,no-local-rank,kill-on-bad-exit,K,"
     "unbuffered,u,overlap,enable-recovery,force-multi",
     "another launcher's", kNothing},
    {"mca,prtemca,pmixmca,gmca,tune", "Open MPI's", "leave it out, or set it by --env OMPI_MCA_NAME=VALUE"},
    {"machine-rank,rank,node-id,host-rank", "accelerate's and others'", "--node-rank {}"},
    {"main-process-ip,master-ip,head-node-ip", "accelerate's", "--master-addr {}"},
    {"main-process-port,port", "accelerate's", "--master-port {}"},
    {"rdzv-timeout,start-timeout", "horovodrun's", "--join-timeout {}"},
    {"min-np,max-np,min-num-proc,max-num-proc", "horovodrun's", "--nnodes MIN:MAX --nproc-per-node N"},
    {"min-elastic-nodes,max-elastic-nodes,elastic-training", "deepspeed's", "--nnodes MIN:MAX"},
    {"reset-limit,retries", "horovodrun's", "--max-restarts {}"},
    {"network-interface,network-interfaces,iface", "horovodrun's", "--net CIDR, like 10.0.0.0/8"},
    {"H,host,L", "mpirun's and horovodrun's", "--hosts {}"},
    {"nodelist,w", "srun's", "--hosts {}"},
    {"machinefile,f,hosts-file,default-hostfile", "mpirun's", "--hostfile {}"},
    {"x", "mpirun's for a variable, srun's for a host",
     "--env {} (what you have exported goes along), or --exclude HOST"},
    {"genv,env-var,E,e", "another launcher's", "--env {}"},
    {"export", "srun's", "--env NAME=VALUE; what you have exported goes along"},
    {"mixed-precision", "accelerate's", "--env ACCELERATE_MIXED_PRECISION={}"},
    {"num-cpu-threads-per-process", "accelerate's", "--env OMP_NUM_THREADS={}"},
    {"use-deepspeed,use-fsdp,deepspeed,deepspeed-config,deepspeed-config-file,zero-stage,dynamo-backend,"
     "gradient-accumulation-steps,config-file",
     "accelerate's or deepspeed's, or your program's", "write it behind the program, if that takes it"},
    {"cpus-per-task,c,cpus-per-proc,cpu-per-rs,d", "srun's and others'",
     "--bind cores (equal parts), threads by --env OMP_NUM_THREADS={}"},
    {"gpu-per-rs,g", "jsrun's", kGpus},
    {"bind-to,cpu-bind,map-by,rank-by,cc,b,bind-cores-to-rank,cpu-set", "mpirun's, srun's and others'",
     kBind},
    {"report-bindings", "mpirun's", "--dry-run"},
    {"wdir,wd,chdir,D", "mpirun's and srun's", "cd {} in front of ddprun"},
    {"tag-output,label,l,prepend-rank", "mpirun's and srun's", "--prefix"},
    {"timestamp-output", "mpirun's", "--prefix='{{time}} {{rank}} '"},
    {"output-filename,output,error,o,stdio-stdout,enable-each-rank-log", "mpirun's, srun's and others'",
     kFiles},
    {"input,i", "srun's", "--stdin 0 < {}"},
    {"pty", "srun's", "--tty 0"},
    {"wait,W", "srun's", "--exit-wait {}"},
    {"time", "srun's, in minutes", "--time-limit {}m"},
    {"timeout", "mpirun's, in seconds", "--time-limit {}s"},
    {"signal", "srun's", "--warn-before S:SIGNAL"},
    {"mem,mem-per-cpu,mem-per-gpu,partition,p,account,A,qos,job-name,J,constraint,C,exclusive,reservation,"
     "distribution",
     "srun's", kScheduler},
    {"j", "torchx's", "--nnodes N --nproc-per-node P"},
    {"launcher,launch-agent,remote-shell", "deepspeed's and others'", "--rsh COMMAND"},
    {"ssh-port,ssh-args", "horovodrun's and deepspeed's", "--rsh 'ssh -p {}'"},
    {"ssh-identity-file", "horovodrun's", "--rsh 'ssh -i {}'"},
    {"no-ssh", "deepspeed's", "--nnodes N --node-rank R --master-addr HOST on each node"},
    {"local-rank", "torch.distributed.launch's, for its workers",
     "leave it out; the program reads LOCAL_RANK"},
    {"V", "mpirun's", "--version"}};

// What these are where no number follows, which aprun's and srun's take.
constexpr Habit kWithoutNumber[] = {{"d", "other programs' for the background", "--detach"},
                                    {"c", "Python's and the shell's for a text",
                                     "python3 -c TEXT, or bash -c TEXT, behind ddprun's options"}};

std::string bare_name(std::string_view word) {
    word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
    std::string name(word.substr(0, word.find('=')));
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
}

const Habit* habit_called(const std::string& name) {
    for (const Habit& habit : kHabits) {
        const auto names = split_at(habit.names, ',');
        if (std::find(names.begin(), names.end(), name) != names.end()) return &habit;
    }
    return nullptr;
}

// The signs that programs for texts write in place of the typed ones; an em or en dash was two of those,
// mostly.
constexpr std::pair<std::string_view, std::string_view> kTypography[] = {
    {"\u2010", "-"},  {"\u2011", "-"}, {"\u2012", "-"}, {"\u2013", "--"}, {"\u2014", "--"},
    {"\u2015", "--"}, {"\u2212", "-"}, {"\u2018", ""},  {"\u2019", ""},   {"\u201a", ""},
    {"\u201c", ""},   {"\u201d", ""},  {"\u201e", ""},  {"\u00ab", ""},   {"\u00bb", ""},
    {"\u00a0", " "},  {"\u202f", " "}, {"\u200b", ""},  {"\ufeff", ""}};

// The word as it was typed, perhaps.
std::string as_typed(std::string word) {
    for (const auto& [sign, typed] : kTypography) {
        for (auto at = word.find(sign); at != word.npos; at = word.find(sign, at + typed.size()))
            word.replace(at, sign.size(), typed);
    }
    const auto name = std::min(word.find_first_not_of('-'), word.size());
    const bool is_short = word.find_first_of("= ", name) == name + 1 || word.size() == name + 1;
    return name == 0 ? word : (is_short ? "-" : "--") + word.substr(name);
}

// Fills in the value, or else what the option takes: the other launcher's may be of another grammar.
std::string advice_of(std::string_view here, const std::string& value) {
    const std::string advice = fmt::format(fmt::runtime(here), value.empty() ? "N" : value);
    const auto words = words_between_blanks(advice);
    Said unused;
    for (const OptionGroup& group : value.empty() ? std::vector<OptionGroup>() : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            const auto flag = std::find(words.begin(), words.end(), long_name(row));
            if (words.end() - flag < 2 || flag[1].find(value) == std::string_view::npos) continue;
            const std::string taken(flag[1].substr(0, flag[1].find(',', value.size())));
            try {
                row.set(taken);
            } catch (const std::runtime_error&) {
                return fmt::format(fmt::runtime(here), taken == value ? row.metavar : "N");
            }
        }
    }
    return advice;
}

}  // namespace

std::vector<std::string> habit_names() {
    std::vector<std::string> names;
    for (const Habit& habit : kHabits) {
        for (const std::string_view name : split_at(habit.names, ',')) names.emplace_back(name);
    }
    return names;
}

void refuse_habit(const std::string& word, const std::string& next) {
    std::string name = bare_name(word);
    const auto equals = word.find('=');
    std::string value = equals != word.npos ? word.substr(equals + 1) : next.starts_with('-') ? "" : next;
    const Habit* habit = habit_called(name);
    // -n4
    if (habit == nullptr && !word.starts_with("--") && name.size() > 1 && name[1] >= '0' && name[1] <= '9') {
        value = word.substr(2);
        name.resize(1);
        habit = habit_called(name);
    }
    for (const Habit& other : kWithoutNumber) {
        const bool is_number = !value.empty() && value.find_first_not_of("0123456789") == value.npos;
        if (other.names == name && !is_number) habit = &other;
    }
    if (habit == nullptr) return;
    const auto placeholder = habit->here.find('{');
    const bool takes_value = placeholder != std::string_view::npos && habit->here[placeholder + 1] != '{';
    throw UsageError(fmt::format(
        "{}{}: this is {}; here: {}", word.substr(0, word.find_first_of("=0123456789")),
        takes_value && !value.empty() ? " " + value : "", habit->of, advice_of(habit->here, value)));
}

void refuse_signs(const std::string& word, bool is_value) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    const bool is_odd = std::any_of(std::begin(kTypography), std::end(kTypography), [&](const auto& entry) {
        const bool is_within = word.starts_with('-') && name.find(entry.first) != name.npos;
        return is_within || word.starts_with(entry.first) || name.ends_with(entry.first);
    });
    if (is_odd)
        throw UsageError(
            fmt::format("{}: has a typographic dash, quote or blank in it, as texts have them; type {}", word,
                        as_typed(word)));
    if (!word.ends_with('\r')) return;
    const bool is_joined = name.size() < word.size();
    const std::string_view value = std::string_view(word).substr(is_joined ? name.size() + 1 : 0);
    // Numbers are read as Python reads them.
    if ((is_value || is_joined) && value.find_first_not_of("0123456789") + 1 == value.size()) return;
    throw UsageError(fmt::format("{}: ends with a carriage return{}", word.substr(0, word.size() - 1),
                                 kCarriageReturnRemedy));
}

namespace {

// The first of several hosts that a blank has parted from the others is all that --hosts gets.
void check_hosts_together(const Said& line) {
    const std::string& hosts = line.start.hosts;
    if (hosts.find_first_not_of(", ") == hosts.npos || !line.typed.contains("--hosts")) return;
    // gpu01 and u@gpu[02-03]:8 are of one kind.
    const auto kind_of_host = [](std::string_view name) {
        std::string kind;
        bool is_range = false;
        for (const char c : name.substr(name.find('@') + 1)) {
            if (c == ':' && !is_range) break;
            if (c == '[' || c == ']') is_range = c == '[';
            if (!is_range && c != ']' && (c < '0' || c > '9')) kind += c;
        }
        return kind;
    };
    const std::string& program = line.program.front();
    const auto names = split_at(hosts, ',');
    const bool is_cut = hosts.ends_with(',') && program.find_first_of("./") == program.npos;
    const bool is_numbered = program.find('/') == program.npos &&
                             kind_of_host(program).size() < program.size() &&
                             kind_of_host(hosts).size() < hosts.size();
    const bool is_host = is_numbered && std::any_of(names.begin(), names.end(), [&](std::string_view name) {
                             return kind_of_host(name) == kind_of_host(program);
                         });
    if (is_cut || is_host) throw UsageError(parted_hosts(line));
}

// What is behind the program is the program's, also where it was meant for the launcher. Other programs than
// a script may well start another launcher, and these options are hardly a script's own.
void remark_on_arguments(Said& line) {
    const bool is_module = line.module && !line.program.front().starts_with("torch.distributed");
    for (const std::string& word : line.program) {
        const std::string name = word.substr(0, word.find('='));
        for (const char* own : {"--nproc-per-node", "--nproc_per_node", "--nnodes", "--standalone",
                                "--rdzv-backend", "--rdzv_backend", "--rdzv-endpoint", "--rdzv_endpoint"}) {
            std::string flag = own;
            std::replace(flag.begin(), flag.end(), '_', '-');
            const bool is_script = is_module || line.program.front().ends_with(".py");
            if (name == own && is_script && !line.origins.contains(flag))
                line.remarks.push_back(fmt::format(
                    "{}: went to {}; ddprun's options stand before the program", name, line.program.front()));
        }
    }
    if (line.program.size() > 1 && line.program.back().ends_with('\r'))
        line.remarks.push_back(fmt::format("the last argument of {} ends with a carriage return{}",
                                           line.program.front(), kCarriageReturnRemedy));
}

}  // namespace

std::string parted_hosts(const Said& line) {
    const std::string &hosts = line.start.hosts, &program = line.program.front();
    return as_said(
        line,
        fmt::format("--hosts {1}: {0} behind it is the program; hosts stand in one word, like {1}{2}{0}",
                    program, hosts, hosts.ends_with(',') ? "" : ","));
}

std::string meant_for_shell(const std::string& name) {
    constexpr std::string_view kWords[] = {"alias", "cd",    "conda",  "declare", "eval",   "export",
                                           "for",   "if",    "let",    "local",   "module", "read",
                                           "set",   "shopt", "source", "trap",    "type",   "ulimit",
                                           "umask", "unset", "until",  "while",   "[["};
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const std::string variable = name.substr(0, name.find('='));
    const bool is_variable = name.size() > variable.size() && !variable.empty() &&
                             variable.find_first_not_of(kLetters) == variable.npos;
    if (is_variable)
        return fmt::format("; for a variable, type --env {0}, or {0} in front of ddprun",
                           harmless_line(join_shell_words({name})));
    if (std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords))
        return fmt::format("; a word of the shell's, so type bash -c '{} …'", name);
    const bool is_several = name.find(' ') != name.npos;
    return is_several ? "; these are several words: type them without the quotes, or behind bash -c" : "";
}

void look_at_program_words(Said& line) {
    if (line.program.empty()) return;
    check_hosts_together(line);
    remark_on_arguments(line);
}

}  // namespace app
}  // namespace ddprun
