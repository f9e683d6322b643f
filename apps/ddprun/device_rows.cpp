#include "apps/ddprun/device_rows.hpp"

#include "apps/ddprun/option_values.hpp"

namespace ddprun::inline app {

OptionGroup device_rows(CommandLine& line) {
    return {
        "Devices",
        {{"--gpu-bind", "HOW",
          "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
          "auto: single for a binary, all for whatever may run another program (auto)\nA binary that is no "
          "interpreter, shell or wrapper (bash, env, numactl, uv, …), by its name and that of the file. "
          "Python "
          "in any clothes counts GPUs by LOCAL_RANK.",
          into(line.gpu_bind, parsed_by(parse_gpu_bind, "must be auto, single, all or none"))},
         {"--share-gpus", "",
          "Allow more workers than GPUs\nWithout it that is refused before anything starts.",
          into(line.share_gpus)},
         {"--virtual-local-rank", "",
          "Every worker has LOCAL_RANK=0, and sees its own GPU only\nBy CUDA_VISIBLE_DEVICES, or what AMD's "
          "and Intel's GPUs have for it; without any GPU that is the local rank.",
          into(line.virtual_local_rank), "PET_VIRTUAL_LOCAL_RANK"},
         {"--bind", "HOW",
          "Which CPUs a worker may run on, of those that ddprun may use. cores: cores of its own; numa: "
          "those of "
          "one NUMA node; none: all (none)\nNear its GPU where it has one, else all workers get equal parts. "
          "Its "
          "memory is taken from there, too.",
          into(line.cpu_bind, parsed_by(parse_bind, "must be cores, numa or none"))},
         {.names = "--numa-binding",
          .metavar = "HOW",
          .help = "The same as torchrun says it. node: the CPUs of its GPU's NUMA node; socket: of that "
                  "node's socket; exclusive: cores of its own there; core-complex: those that share one "
                  "last-level cache\nexclusive refuses too few cores.",
          .set = into(line.numa_binding,
                      parsed_by(parse_numa_binding, "must be node, socket, exclusive or core-complex")),
          .is_torchruns = true},
         {"--rank-order", "BY",
          "In which order the nodes have their ranks: node, by their numbers; topology, by the switches that "
          "Slurm names in SLURM_TOPOLOGY_ADDR; or a file of host names in that order (node)\nGROUP_RANK goes "
          "by it, too; node 0 hosts the rendezvous all the same. Nodes of which nothing is known come last. "
          "For a file that is called node or topology write ./node.",
          into(line.rank_order_by)},
         {"--dry-run", "",
          "Print where each worker of this node would run (CPUs, NUMA node, GPU, NIC) and what, and "
          "exit\nNothing "
          "is connected to and nothing started.",
          into(line.dry_run)},
         {"--check", "",
          "Look at this node before anything starts, as ddprun doctor does, and take no part in a job where "
          "there is a problem\nOne line for each problem, and exit code 71. Of several nodes the others "
          "begin "
          "without this one where MIN of --nnodes allows that, else the job ends. Only what takes a second "
          "at "
          "most: neither names nor Python. Not with --dry-run or --adapt.",
          into(line.check)},
         {"--explain", "",
          "Print the whole plan with the source of each value, and exit\nWhat the cluster tells and who says "
          "otherwise, options and who set them, addresses and ports, GPUs and CPUs, each worker's command "
          "and "
          "what its environment has over the inherited one. Nothing is connected to and nothing started.",
          into(line.explain)},
         {"--json", "", "What --explain and --dry-run print, as JSON", into(line.json)}}};
}

}  // namespace ddprun::inline app
